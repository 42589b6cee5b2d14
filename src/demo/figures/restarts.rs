//! What a replay measured of the restarts of the master.

use serde::Serialize;

use super::Epoch;
use crate::demo::oracle::OracleCounts;
use crate::demo::roll::Rolled;

/// The part of the result that only a demo with restarts has; the names are an interface for
/// scripts.
#[derive(Debug, Serialize)]
pub(crate) struct RestartFigures {
    restarts: u64,
    segments_confirmed: u64,
    segments_dropped: u64,
    clients_expired: u64,
    /// Of each master in turn; `null` for one without a reference.
    hit_rate_by_epoch: Vec<Option<f64>>,
    /// What exact LRU finds in the same references.
    lru_hit_rate_by_epoch: Vec<Option<f64>>,
    /// The longest time from the signal to the moment that the next master served.
    gap_s_max: f64,
    /// The longest time from then until all segments were confirmed or dropped.
    settled_s_max: f64,
    oracle_reads: u64,
    oracle_hits: u64,
    oracle_puts: u64,
    oracle_removes: u64,
    /// Part of the `wrong_bytes` of the whole.
    oracle_wrong_bytes: u64,
}

impl RestartFigures {
    /// Puts together what came of the restarts, the epochs of the replay, what exact LRU would have
    /// found in each of them, and the side workload.
    pub(crate) fn new(
        rolled: &Rolled,
        epochs: &[Epoch],
        lru_hits: &[u64],
        oracle: &OracleCounts,
    ) -> RestartFigures {
        let rate = |hits: u64, epoch: &Epoch| {
            (epoch.block_refs > 0).then(|| hits as f64 / epoch.block_refs as f64)
        };
        let mut masters = rolled.former;
        masters.add(&rolled.last);
        RestartFigures {
            restarts: rolled.restarts,
            segments_confirmed: masters.segments_confirmed,
            segments_dropped: masters.segments_dropped,
            clients_expired: masters.clients_expired,
            hit_rate_by_epoch: epochs.iter().map(|epoch| rate(epoch.hits, epoch)).collect(),
            lru_hit_rate_by_epoch: epochs
                .iter()
                .zip(lru_hits)
                .map(|(epoch, hits)| rate(*hits, epoch))
                .collect(),
            gap_s_max: rolled.gap_max.as_secs_f64(),
            settled_s_max: rolled.settled_max.as_secs_f64(),
            oracle_reads: oracle.reads,
            oracle_hits: oracle.hits,
            oracle_puts: oracle.puts,
            oracle_removes: oracle.removes,
            oracle_wrong_bytes: oracle.wrong_bytes,
        }
    }

    /// What the side workload found wrong.
    pub(super) fn wrong_bytes(&self) -> u64 {
        self.oracle_wrong_bytes
    }

    /// Their rows of the table for people.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let percent = |rate: &Option<f64>| match rate {
            Some(rate) => format!("{:.1} %", rate * 1e2),
            None => "-".to_owned(),
        };
        let rates =
            |rates: &[Option<f64>]| rates.iter().map(percent).collect::<Vec<_>>().join(", ");
        vec![
            (
                "restarts",
                format!(
                    "{}, the longest {:.2} s until the next master served and {:.2} s more until \
                     all segments were there",
                    self.restarts, self.gap_s_max, self.settled_s_max
                ),
            ),
            (
                "segments",
                format!("{} confirmed, {} dropped", self.segments_confirmed, self.segments_dropped),
            ),
            ("clients expired", self.clients_expired.to_string()),
            ("hit rate by epoch", rates(&self.hit_rate_by_epoch)),
            ("exact LRU by epoch", rates(&self.lru_hit_rate_by_epoch)),
            (
                "side workload",
                format!(
                    "{} reads with {} hits, {} puts, {} removes",
                    self.oracle_reads, self.oracle_hits, self.oracle_puts, self.oracle_removes
                ),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::admin_page::MasterFigures;

    fn figures() -> RestartFigures {
        let master = MasterFigures {
            segments_confirmed: 3,
            segments_dropped: 1,
            clients_expired: 2,
            ..MasterFigures::default()
        };
        let rolled = Rolled {
            restarts: 2,
            former: master,
            last: master,
            gap_max: Duration::from_millis(250),
            settled_max: Duration::from_millis(500),
        };
        let epochs = [
            Epoch { requests: 2, block_refs: 8, hits: 4 },
            Epoch::default(),
            Epoch { requests: 1, block_refs: 4, hits: 1 },
        ];
        let oracle = OracleCounts { reads: 5, hits: 4, wrong_bytes: 7, ..OracleCounts::default() };
        RestartFigures::new(&rolled, &epochs, &[6, 0, 2], &oracle)
    }

    #[test]
    fn names_stay_as_scripts_know_them() {
        let told = serde_json::to_value(figures()).unwrap();
        assert_eq!(told["restarts"], 2);
        assert_eq!(told["segments_confirmed"], 6);
        assert_eq!(told["segments_dropped"], 2);
        assert_eq!(told["clients_expired"], 4);
        assert_eq!(told["hit_rate_by_epoch"], serde_json::json!([0.5, null, 0.25]));
        assert_eq!(told["lru_hit_rate_by_epoch"], serde_json::json!([0.75, null, 0.5]));
        assert_eq!(told["gap_s_max"], 0.25);
        assert_eq!(told["oracle_hits"], 4);
    }

    #[test]
    fn people_see_the_same() {
        let rows = figures().rows();
        let row = |name: &str| &rows.iter().find(|(is, _)| *is == name).unwrap().1;
        assert_eq!(row("segments"), "6 confirmed, 2 dropped");
        assert_eq!(row("hit rate by epoch"), "50.0 %, -, 25.0 %");
        assert_eq!(row("clients expired"), "4");
    }
}
