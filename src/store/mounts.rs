//! Which memory a range means, and whether it is still the range of the current mount.

use std::collections::HashMap;

use mooring_proto::client::Mounts as Grants;
use mooring_proto::message::data::MountedRange;
use mooring_proto::message::segment::MountGrant;
use mooring_proto::{ErrorCode, SegmentId, WireError};
use tokio::sync::watch;

use super::memory::SegmentMemory;

/// The segments of this store under their current mounts.
///
/// A copy holds the grants unchanged while it runs. So a range is checked and copied under one
/// mount: a remount, which the client announces by changing the grants, waits for the copies that
/// began before it, and later ones of the former mount are refused.
#[derive(Debug)]
pub(crate) struct Mounts {
    memories: HashMap<SegmentId, SegmentMemory>,
    grants: watch::Receiver<Grants>,
}

impl Mounts {
    /// The memories of this store, and what the master grants them.
    pub(crate) fn new(
        memories: HashMap<SegmentId, SegmentMemory>,
        grants: watch::Receiver<Grants>,
    ) -> Mounts {
        Mounts { memories, grants }
    }

    /// A copy of the range's bytes.
    ///
    /// # Errors
    /// `WrongMount` or `OutOfRange`.
    pub(crate) fn read(&self, range: &MountedRange) -> Result<Vec<u8>, WireError> {
        let grants = self.grants.borrow();
        let memory = self.find(&grants, range)?;
        let length_bytes = range.length_bytes as usize;
        memory.read(range.offset_bytes, length_bytes).ok_or_else(|| out_of_range(memory, range))
    }

    /// Copies the bytes, which are as many as the range has, into memory.
    ///
    /// # Errors
    /// `WrongMount` or `OutOfRange`; nothing is written then.
    pub(crate) fn write(&self, range: &MountedRange, bytes: &[u8]) -> Result<(), WireError> {
        let grants = self.grants.borrow();
        let memory = self.find(&grants, range)?;
        memory.write(range.offset_bytes, bytes).ok_or_else(|| out_of_range(memory, range))
    }

    /// Whether the range would be taken now, to refuse a write before its bytes are buffered.
    ///
    /// # Errors
    /// `WrongMount` or `OutOfRange`.
    pub(crate) fn check(&self, range: &MountedRange) -> Result<(), WireError> {
        let grants = self.grants.borrow();
        let memory = self.find(&grants, range)?;
        if memory.contains(range.offset_bytes, range.length_bytes as usize) {
            return Ok(());
        }
        Err(out_of_range(memory, range))
    }

    fn find(&self, grants: &Grants, range: &MountedRange) -> Result<&SegmentMemory, WireError> {
        let memory = self.memories.get(&range.segment);
        let grant = grants.get(&range.segment);
        match (memory, grant) {
            (Some(memory), Some(grant)) if is_of(range, grant) => Ok(memory),
            (_, grant) => Err(wrong_mount(range, grant)),
        }
    }
}

fn is_of(range: &MountedRange, grant: &MountGrant) -> bool {
    range.generation == grant.generation && range.incarnation == grant.incarnation
}

fn wrong_mount(range: &MountedRange, grant: Option<&MountGrant>) -> WireError {
    let text = match grant {
        None => format!("segment {} is not mounted here", range.segment),
        Some(grant) => format!(
            "generation {} of master {}, mounted is generation {} of master {}",
            range.generation, range.incarnation, grant.generation, grant.incarnation
        ),
    };
    WireError::new(ErrorCode::WrongMount, text)
}

fn out_of_range(memory: &SegmentMemory, range: &MountedRange) -> WireError {
    let text = format!(
        "{} bytes at {}, the segment has {}",
        range.length_bytes,
        range.offset_bytes,
        memory.size_bytes()
    );
    WireError::new(ErrorCode::OutOfRange, text)
}

#[cfg(test)]
mod tests {
    use mooring_proto::Incarnation;

    use super::*;

    const SEGMENT: SegmentId = SegmentId(7);
    const GRANT: MountGrant = MountGrant { slot: 3, generation: 5, incarnation: Incarnation(9) };
    const RANGE: MountedRange = MountedRange {
        segment: SEGMENT,
        generation: 5,
        incarnation: Incarnation(9),
        offset_bytes: 100,
        length_bytes: 4,
    };

    fn mounted() -> (Mounts, watch::Sender<Grants>) {
        let (sender, grants) = watch::channel(Grants::from([(SEGMENT, GRANT)]));
        let memory = SegmentMemory::map(4096, false).unwrap();
        (Mounts::new(HashMap::from([(SEGMENT, memory)]), grants), sender)
    }

    fn code<T: std::fmt::Debug>(outcome: Result<T, WireError>) -> ErrorCode {
        outcome.unwrap_err().code
    }

    #[test]
    fn a_range_of_the_current_mount_is_written_and_read() {
        let (mounts, _sender) = mounted();
        mounts.write(&RANGE, b"four").unwrap();
        assert_eq!(mounts.read(&RANGE).unwrap(), b"four");
        mounts.check(&RANGE).unwrap();
    }

    #[test]
    fn another_segment_generation_or_incarnation_is_the_wrong_mount() {
        let (mounts, _sender) = mounted();
        let wrong = [
            MountedRange { segment: SegmentId(8), ..RANGE },
            MountedRange { generation: 4, ..RANGE },
            MountedRange { incarnation: Incarnation(1), ..RANGE },
        ];
        for range in wrong {
            assert_eq!(code(mounts.read(&range)), ErrorCode::WrongMount);
            assert_eq!(code(mounts.write(&range, b"four")), ErrorCode::WrongMount);
            assert_eq!(code(mounts.check(&range)), ErrorCode::WrongMount);
        }
        assert_eq!(mounts.read(&RANGE).unwrap(), [0; 4]);
    }

    #[test]
    fn a_remount_ends_the_ranges_of_the_former_mount() {
        let (mounts, sender) = mounted();
        let remount = MountGrant { generation: 6, ..GRANT };
        sender.send_replace(Grants::from([(SEGMENT, remount)]));
        assert_eq!(code(mounts.read(&RANGE)), ErrorCode::WrongMount);
        mounts.read(&MountedRange { generation: 6, ..RANGE }).unwrap();
    }

    #[test]
    fn an_unmounted_segment_is_not_read() {
        let (mounts, sender) = mounted();
        sender.send_replace(Grants::new());
        assert_eq!(code(mounts.read(&RANGE)), ErrorCode::WrongMount);
    }

    #[test]
    fn a_range_beyond_the_end_is_out_of_range() {
        let (mounts, _sender) = mounted();
        let range = MountedRange { offset_bytes: 4093, ..RANGE };
        assert_eq!(code(mounts.read(&range)), ErrorCode::OutOfRange);
        assert_eq!(code(mounts.write(&range, b"four")), ErrorCode::OutOfRange);
        assert_eq!(code(mounts.check(&range)), ErrorCode::OutOfRange);
    }
}
