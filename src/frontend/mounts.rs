//! How many segments one client may have mounted.

use std::collections::HashSet;

use mooring_actors::core::SegmentTable;
use mooring_proto::limits::REMOUNT_SEGMENTS_MAX;
use mooring_proto::{ClientId, ErrorCode, SegmentId, WireError};

/// Whether a client may have these segments beside those that it has: as many as it can name in one
/// remount, since it could not come back with more. Mounts that are under way are not counted yet.
///
/// # Errors
/// `TooLarge`, which says the limit.
pub(crate) fn check_room(
    table: &SegmentTable,
    client: ClientId,
    offered: impl Iterator<Item = SegmentId>,
) -> Result<(), WireError> {
    let offered: HashSet<SegmentId> = offered.collect();
    let own = table.segments.iter().filter(|row| row.client == client);
    let others = own.filter(|row| !offered.contains(&row.segment.segment)).count();
    let segments = others + offered.len();
    if segments <= REMOUNT_SEGMENTS_MAX {
        return Ok(());
    }
    let text = format!("{segments} segments of one client, the limit is {REMOUNT_SEGMENTS_MAX}");
    Err(WireError::new(ErrorCode::TooLarge, text))
}

#[cfg(test)]
mod tests {
    use mooring_proto::message::segment::{Segment, SegmentEntry};

    use super::*;

    const CLIENT: ClientId = ClientId(1);

    fn row(client: ClientId, number: usize) -> SegmentEntry {
        let segment = Segment {
            segment: SegmentId(number as u128),
            base: 1,
            size_bytes: 4096,
            endpoint: String::new(),
            certificate_sha256: None,
            transfer_engine: None,
        };
        SegmentEntry { slot: 0, generation: 0, client, segment }
    }

    fn ids(numbers: std::ops::Range<usize>) -> impl Iterator<Item = SegmentId> {
        numbers.map(|number| SegmentId(number as u128))
    }

    #[test]
    fn a_client_has_no_more_segments_than_it_can_mount_again_at_once() {
        let segments = (0..REMOUNT_SEGMENTS_MAX).map(|number| row(CLIENT, number)).collect();
        let table = SegmentTable { epoch: 1, segments };
        let all = REMOUNT_SEGMENTS_MAX;
        assert_eq!(check_room(&table, CLIENT, ids(0..1)), Ok(()), "it is mounted");
        assert_eq!(check_room(&table, CLIENT, ids(0..all)), Ok(()));
        assert_eq!(check_room(&table, ClientId(2), ids(all..all + 1)), Ok(()));
        for more in [all..all + 1, 1..all + 1] {
            let error = check_room(&table, CLIENT, ids(more)).unwrap_err();
            assert_eq!(error.code, ErrorCode::TooLarge);
            assert!(error.text.contains("4097 segments") && error.text.contains("4096"), "{error}");
        }
    }
}
