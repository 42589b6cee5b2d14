//! A planned restart of the cluster in memory: come to rest, export, restore.

use mooring_actors::core::{CoreConfig, CoreState, Reshape};
use mooring_actors::handoff::{
    ClientRecord, ExportError, ObjectRecord, PoolRecord, RangePlace, RangeRecord, RecordSink,
    RestoreError, RestoredSegment, ShardRecord, SideRecord,
};
use mooring_actors::pool::Pool;
use mooring_actors::shard::message::ShardMessage;
use mooring_actors::{Moment, ShardId};
use mooring_proto::Incarnation;
use mooring_proto::message::segment::SegmentEntry;

use super::{ClientsMessage, Cluster, Envelope};

/// What one master hands to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handoff {
    pub pool: PoolRecord,
    pub clients: Vec<ClientRecord>,
    pub shards: Vec<ShardFile>,
}

/// The records of one shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardFile {
    pub record: ShardRecord,
    pub ranges: Vec<OwnedRange>,
}

/// A record with a key of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedRange {
    Object { key: Vec<u8>, group: Vec<u8>, record: ObjectRecord<'static> },
    Replica { place: RangePlace, ordinal: u64 },
    Hold { place: RangePlace, length_bytes: u64, left_ms: u64 },
}

impl OwnedRange {
    pub fn record(&self) -> RangeRecord<'_> {
        match self {
            OwnedRange::Object { key, group, record } => {
                let side = SideRecord { group, ..record.side };
                RangeRecord::Object(ObjectRecord { key, side, ..*record })
            }
            OwnedRange::Replica { place, ordinal } => {
                RangeRecord::Replica { place: *place, ordinal: *ordinal }
            }
            OwnedRange::Hold { place, length_bytes, left_ms } => {
                RangeRecord::Hold { place: *place, length_bytes: *length_bytes, left_ms: *left_ms }
            }
        }
    }
}

impl RecordSink for ShardFile {
    fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), ExportError> {
        self.ranges.push(match *record {
            RangeRecord::Object(record) => OwnedRange::Object {
                key: record.key.to_vec(),
                group: record.side.group.to_vec(),
                record: ObjectRecord {
                    key: b"",
                    side: SideRecord { group: b"", ..record.side },
                    ..record
                },
            },
            RangeRecord::Replica { place, ordinal } => OwnedRange::Replica { place, ordinal },
            RangeRecord::Hold { place, length_bytes, left_ms } => {
                OwnedRange::Hold { place, length_bytes, left_ms }
            }
        });
        Ok(())
    }

    fn finish(&mut self, record: &ShardRecord) -> Result<(), ExportError> {
        self.record = *record;
        Ok(())
    }
}

impl Cluster {
    /// Brings all actors to rest for an export; every open request is answered by then.
    pub fn quiesce(&mut self) {
        self.come_to_rest(true);
    }

    /// Brings all actors to rest; every open request is answered by then.
    pub fn come_to_rest(&mut self, hands_over: bool) {
        self.queue.push_back(Envelope::ToClients(ClientsMessage::Quiesce));
        for number in 0..self.route.shards() {
            let quiesce = ShardMessage::Quiesce { hands_over };
            self.queue.push_back(Envelope::ToShard(ShardId(number), quiesce));
        }
        self.settle();
        assert_eq!(self.shards_at_rest, self.shards.len(), "every shard comes to rest");
        assert!(self.open.is_empty(), "answered: {:?} are open at rest", self.open);
    }

    /// What the master hands over. It must be at rest.
    pub fn export(&self) -> Handoff {
        let pool = self.pool.export(self.now);
        let mounts: Vec<_> = pool.segments.iter().map(|segment| segment.mount()).collect();
        let shards = self.shards.iter().map(|shard| {
            let mut file = ShardFile::default();
            let record = shard.export(self.now, &mounts, &mut file).expect("the sink takes all");
            file.finish(&record).expect("the sink takes all");
            file
        });
        Handoff { shards: shards.collect(), clients: self.clients.export(), pool }
    }

    /// The next master with nothing of this one.
    pub fn replaced(&self, shards: u16) -> Cluster {
        let incarnation = match self.incarnation {
            super::INCARNATION => super::INCARNATION_AFTER,
            Incarnation(number) => Incarnation(number + 1),
        };
        let mut next = Cluster::of(incarnation, shards, self.settings.clone());
        next.now = Moment::from_ms(0);
        next.next_request = self.next_request;
        next.next_put = self.next_put;
        next
    }

    /// The next master, with what this one has handed over, and as many shards.
    pub fn restored(&self, handoff: &Handoff) -> Result<Cluster, RestoreError> {
        let mut next = self.replaced(self.route.shards());
        let config = next.config();
        let segments = Pool::restored_segments(&handoff.pool)?;
        let mut shards = Vec::new();
        for (file, number) in handoff.shards.iter().zip(0..) {
            let mut restore = config.restore_shard(ShardId(number), &segments, file.record.objects);
            for range in &file.ranges {
                restore.range(&range.record())?;
            }
            shards.push(restore.finish(file.record.objects, handoff.next_sequence())?);
        }
        let state = CoreState::restored(&config, &handoff.pool, &handoff.clients, shards)?;
        next.take_over(handoff, &segments, state);
        Ok(next)
    }

    /// The next master with another number of shards.
    pub fn reshaped(&self, handoff: &Handoff, shards: u16) -> Result<Cluster, RestoreError> {
        let mut next = self.replaced(shards);
        let config = next.config();
        let segments = Pool::restored_segments(&handoff.pool)?;
        let objects = handoff.shards.iter().map(|file| file.record.objects).sum();
        let mut merged: Vec<(usize, &OwnedRange)> = Vec::new();
        for (number, file) in handoff.shards.iter().enumerate() {
            merged.extend(file.ranges.iter().map(|range| (number, range)));
        }
        merged.sort_by_key(|(_, range)| range.record().place());
        let mut reshape = Reshape::new(&config, &segments, handoff.shards.len(), objects);
        for (file, range) in merged {
            reshape.range(file, &range.record())?;
        }
        let state =
            reshape.finish(&handoff.pool, &handoff.clients, objects, handoff.next_sequence())?;
        next.take_over(handoff, &segments, state);
        Ok(next)
    }

    fn config(&self) -> CoreConfig {
        CoreConfig {
            route: self.route,
            settings: self.settings.clone(),
            ..CoreConfig::new(self.route.shards(), 0, self.incarnation)
        }
    }

    fn take_over(&mut self, handoff: &Handoff, restored: &[RestoredSegment], state: CoreState) {
        (self.shards, self.pool, self.clients) = state.into_parts();
        let known = handoff.pool.segments.iter().zip(restored);
        self.handed_over = known
            .map(|(record, restored)| SegmentEntry {
                slot: u32::from(restored.mount.slot.0),
                generation: restored.mount.generation.0,
                client: record.client,
                segment: record.segment.clone(),
            })
            .collect();
    }
}

impl Handoff {
    /// The highest number that any shard would have given to a put next.
    fn next_sequence(&self) -> u64 {
        self.shards.iter().map(|file| file.record.next_sequence).max().unwrap_or(0)
    }
}
