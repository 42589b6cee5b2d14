//! A trace that is replayed again and again, each time with other blocks.

use super::trace::TraceRequest;
use crate::bench::mix;

/// The blocks of a request in a round; equal ids are equal blocks within one round only. The first
/// round, 0, has those of the trace.
pub(crate) fn blocks(request: &TraceRequest, round: u64) -> Vec<u64> {
    let salt = if round == 0 { 0 } else { mix(round) };
    request.hash_ids.iter().map(|block| block.wrapping_add(salt)).collect()
}

/// The blocks of all requests, in all rounds, without an end unless the trace is empty.
pub(crate) fn endless(requests: &[TraceRequest]) -> impl Iterator<Item = Vec<u64>> {
    // An empty trace would be searched for its first request for ever.
    let rounds = if requests.is_empty() { 0 } else { u64::MAX };
    (0..rounds).flat_map(move |round| requests.iter().map(move |request| blocks(request, round)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn requests() -> Vec<TraceRequest> {
        let request =
            |blocks: &[u64]| TraceRequest { hash_ids: blocks.to_vec(), ..TraceRequest::default() };
        vec![request(&[1, 2, 3]), request(&[1, 2, 4])]
    }

    #[test]
    fn the_first_round_is_the_trace() {
        let first: Vec<_> = endless(&requests()).take(2).collect();
        assert_eq!(first, [[1, 2, 3], [1, 2, 4]]);
    }

    #[test]
    fn rounds_share_no_block_and_keep_the_chains() {
        let rounds: Vec<_> = endless(&requests()).take(2 * 100).collect();
        let blocks: HashSet<u64> = rounds.iter().flatten().copied().collect();
        assert_eq!(blocks.len(), 4 * 100);
        assert!(rounds.chunks(2).all(|round| round[0][..2] == round[1][..2]));
    }

    #[test]
    fn nothing_has_no_rounds() {
        assert_eq!(endless(&[]).next(), None);
    }
}
