//! Segments that have no memory behind them.

use std::ops::Range;

use mooring_proto::client::{Client, ClientError};
use mooring_proto::message::segment::Segment;
use mooring_proto::{ErrorCode, SegmentId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Segments in an address range that nobody reads: the master only hands out offsets. Range and
/// endpoint are of this run alone, so nothing that an earlier one left is in the way.
pub(super) fn fake_segments(count: u32, size_bytes: u64) -> Vec<Segment> {
    let mut random = StdRng::from_os_rng();
    let run: u64 = random.random();
    let first = random.random_range(BASES) / BASE_STEP * BASE_STEP;
    let base = |index: u64| first.saturating_add(index.saturating_mul(size_bytes));
    (0..u64::from(count))
        .map(|index| Segment {
            segment: SegmentId(random.random()),
            base: base(index),
            size_bytes,
            endpoint: format!("no-memory-{run:016x}.invalid:9"),
            certificate_sha256: None,
            transfer_engine: None,
        })
        .collect()
}

/// Also of segments that were not mounted any more: the answer to a mount may have been lost.
///
/// # Errors
/// What the first unmount that fails is refused with.
pub(super) async fn unmount(owner: &Client, segments: &[Segment]) -> Result<(), ClientError> {
    for segment in segments {
        match owner.unmount(segment.segment, 0).await {
            Err(error) if error.code() != Some(ErrorCode::SegmentNotFound) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Where the first segment pretends to lie; all of them fit behind it.
const BASES: Range<u64> = 1 << 40..1 << 62;

/// Memory starts at a page.
const BASE_STEP: u64 = 2 << 20;
