//! Around stores that do not answer: the master needs a while to miss them, and places objects
//! there until then.

use std::borrow::Cow;

use rand::seq::SliceRandom;

use super::PutOptions;
use super::random::source;
use super::shared::Shared;
use crate::identity::SegmentId;
use crate::limits::PREFERRED_SEGMENTS_MAX;

impl Shared {
    /// The options of a put that prefers other segments while a store is known not to answer; what
    /// the caller prefers stays first.
    pub(super) fn steered<'a>(&self, options: &'a PutOptions) -> Cow<'a, PutOptions> {
        let Some(is_shunned) = self.stores.shunned() else { return Cow::Borrowed(options) };
        let rows = self.segments.rows();
        let ids = |shunned: bool| {
            let those = rows.iter().filter(|row| is_shunned(&row.segment) == shunned);
            those.map(|row| row.segment.segment).collect::<Vec<SegmentId>>()
        };
        let (mut others, shunned) = (ids(false), ids(true));
        if others.is_empty() || shunned.is_empty() {
            return Cow::Borrowed(options);
        }
        let mut steered = options.clone();
        steered.preferred_segments.retain(|segment| !shunned.contains(segment));
        others.retain(|segment| !steered.preferred_segments.contains(segment));
        // At random, or all clients would fill the same ones; in order before, so that nothing else
        // decides.
        others.sort_unstable();
        others.shuffle(&mut source());
        steered.preferred_segments.extend(others);
        steered.preferred_segments.truncate(PREFERRED_SEGMENTS_MAX);
        Cow::Owned(steered)
    }
}
