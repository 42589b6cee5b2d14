//! That no byte belongs to two objects.

use crate::answers::{Answer, Replica, Value};
use crate::compare::segment_of;

/// Where the objects of many sequences are read in the end, on one master.
#[derive(Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds what an answer names.
    pub(crate) fn add(&mut self, answer: &Answer) {
        for outcome in answer.iter().flatten() {
            if let Value::Found { replicas, .. } = outcome {
                self.0.extend(replicas.iter().map(range_of));
            }
        }
    }

    /// How many there are, after a look at each of them.
    ///
    /// # Panics
    /// If two have a byte in common.
    pub(crate) fn assert_disjoint(mut self) -> usize {
        self.0.sort_unstable();
        for pair in self.0.windows(2) {
            let [(_, end), (start, _)] = pair else { continue };
            assert!(end <= start, "two objects share bytes: {pair:x?}");
        }
        self.0.len()
    }
}

fn range_of(replica: &Replica) -> (u64, u64) {
    let end = replica.address + replica.bytes;
    assert_eq!(segment_of(replica), (end - 1) >> crate::generate::SEGMENT_SHIFT, "{replica:?}");
    (replica.address, end)
}
