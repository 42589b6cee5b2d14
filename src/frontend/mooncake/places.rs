//! Where a range lies, in the words of the transfer engine: an address behind an endpoint.

use std::sync::Arc;

use mooring_actors::core::{Core, SegmentTable};
use mooring_actors::pool::message::{PoolReply, PoolRequest};
use mooring_proto::message::object::RangeDescriptor;
use mooring_proto::message::segment::SegmentEntry;
use mooring_proto::mooncake::{
    BufferDescriptor, Descriptor, MemoryDescriptor, Place, ReplicaStatus, Str,
};

/// The segments by slot, as of one moment.
pub(super) struct Places {
    table: Arc<SegmentTable>,
    /// Whether a segment that is not in the table may be mounted all the same.
    outdated: bool,
}

/// One object as a shard has it.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) size_bytes: u64,
    pub(super) sequence: u64,
    pub(super) replicas: &'a [RangeDescriptor],
}

impl Places {
    /// The table that all these ranges can be looked up in. A shard may know a segment a little
    /// earlier than the table that is at hand.
    pub(super) async fn for_all<'a>(
        core: &Core,
        mut ranges: impl Iterator<Item = &'a RangeDescriptor>,
    ) -> Places {
        let places = Places { table: core.table(), outdated: true };
        if ranges.all(|range| places.row(range).is_some()) {
            return places;
        }
        match core.pool(PoolRequest::Table).await {
            Ok(PoolReply::Table { epoch, segments }) => {
                Places { table: Arc::new(SegmentTable { epoch, segments }), outdated: false }
            }
            _ => places,
        }
    }

    /// The descriptors of an object's replicas, behind those that are there already. A replica whose
    /// segment has gone meanwhile has none.
    pub(super) fn describe<'a>(
        &'a self,
        object: Placed<'_>,
        status: ReplicaStatus,
        descriptors: &mut Vec<Descriptor<'a>>,
    ) {
        for range in object.replicas {
            let Some(row) = self.row(range) else { continue };
            let Some(engine) = &row.segment.transfer_engine else { continue };
            let buffer_descriptor = BufferDescriptor {
                size: object.size_bytes,
                buffer_address: row.segment.base + range.offset_bytes,
                protocol: Str::from(engine.protocol.as_str()),
                transport_endpoint: Str::from(row.segment.endpoint.as_str()),
            };
            descriptors.push(Descriptor {
                id: replica_id(object.sequence, range.slot),
                place: Place::Memory(MemoryDescriptor { buffer_descriptor }),
                status,
            });
        }
    }

    /// Whether a writer is told of every replica that its object will be read from. One that is not
    /// told must be gone for good: the end of a put makes all readable that are not.
    pub(super) fn tell_all(&self, replicas: &[RangeDescriptor]) -> bool {
        !self.outdated || replicas.iter().all(|range| self.row(range).is_some())
    }

    fn row(&self, range: &RangeDescriptor) -> Option<&SegmentEntry> {
        let rows = &self.table.segments;
        let place = rows.binary_search_by_key(&range.slot, |row| row.slot).ok()?;
        Some(&rows[place]).filter(|row| row.generation == range.generation)
    }
}

/// The id of a replica: another one for each replica of each put, and the same as long as the replica is
/// there, whatever becomes of the others. No two replicas of an object share a segment, and slots have 16
/// bits, so the slot stands below the number of the put. Clients only carry it about.
fn replica_id(sequence: u64, slot: u32) -> u64 {
    sequence.rotate_left(u16::BITS) ^ u64::from(slot)
}

#[cfg(test)]
mod tests {
    use mooring_proto::message::segment::{Segment, TransferEngine};
    use mooring_proto::{ClientId, SegmentId};

    use super::*;

    fn row(slot: u32, generation: u32) -> SegmentEntry {
        let engine = TransferEngine {
            name: format!("node-{slot}"),
            protocol: "tcp".to_owned(),
            host: String::new(),
        };
        let segment = Segment {
            segment: SegmentId(slot.into()),
            base: 0x1000 * u64::from(slot + 1),
            size_bytes: 4096,
            endpoint: format!("10.0.0.{slot}:12345"),
            certificate_sha256: None,
            transfer_engine: Some(engine),
        };
        SegmentEntry { slot, generation, client: ClientId(1), segment }
    }

    #[test]
    fn a_replica_is_an_address_behind_the_endpoint_of_its_segment_as_it_was_named() {
        let table = SegmentTable { epoch: 1, segments: vec![row(0, 1), row(3, 2)] };
        let places = Places { table: Arc::new(table), outdated: false };
        let range = |slot, generation| RangeDescriptor { slot, generation, offset_bytes: 64 };
        let replicas = [range(3, 2), range(0, 9), range(1, 1), range(0, 1)];
        let mut descriptors = Vec::new();
        let object = Placed { size_bytes: 100, sequence: 5, replicas: &replicas };
        places.describe(object, ReplicaStatus::COMPLETE, &mut descriptors);
        let told = descriptors.iter().map(|descriptor| match &descriptor.place {
            Place::Memory(memory) => {
                let buffer = &memory.buffer_descriptor;
                let endpoint = std::str::from_utf8(buffer.transport_endpoint.0).unwrap();
                (buffer.buffer_address, endpoint, descriptor.id)
            }
            other => panic!("{other:?}"),
        });
        let expected =
            [(0x4040, "10.0.0.3:12345", 5 << 16 | 3), (0x1040, "10.0.0.0:12345", 5 << 16)];
        assert_eq!(told.collect::<Vec<_>>(), expected, "what is gone has no descriptor");
    }

    #[test]
    fn a_writer_is_not_sent_off_without_a_replica_that_only_the_table_at_hand_does_not_know() {
        let table = Arc::new(SegmentTable { epoch: 1, segments: vec![row(0, 1)] });
        let range = |slot, generation| RangeDescriptor { slot, generation, offset_bytes: 0 };
        let at_hand = Places { table: table.clone(), outdated: true };
        assert!(at_hand.tell_all(&[range(0, 1)]));
        assert!(!at_hand.tell_all(&[range(0, 1), range(1, 1)]), "mounted just now");
        let of_the_pool = Places { table, outdated: false };
        assert!(of_the_pool.tell_all(&[range(0, 1), range(1, 1)]), "it has gone meanwhile");
    }
}
