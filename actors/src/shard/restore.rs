//! Laying down what the shard before has handed over.
//!
//! Time begins at the moment of serving. Nothing restored is visible: its segments are pending until
//! their owners prove that the memory is the same.

mod keys;

use std::collections::HashMap;

use mooring_proto::limits::OBJECT_BYTES_MAX;

use super::abroad::Home;
use super::config::ShardConfig;
use super::idle::IdleClass;
use super::index::IndexBuilder;
use super::ledger::Restored;
use super::objects::ObjectHandle;
use super::put::SEQUENCE_STEP;
use super::ranges::{LayError, RangeHandle, RangeState, SegmentIndex};
use super::state::Shard;
use crate::handoff::{ObjectRecord, RangePlace, RangeRecord, RestoreError, RestoredSegment};
use crate::moment::Moment;
use crate::pages::PageRun;
use crate::pool::message::{Mount, SegmentSlot};
use crate::route::ShardId;

pub use super::index::{BuiltShare, IndexShare};
pub use keys::{RestoredKeys, StoredKey};

/// The pages that a shard's ranges lie in, by segment.
pub type OwnedPages = Vec<(SegmentSlot, Vec<PageRun>)>;

/// An object that was restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoredObject {
    handle: ObjectHandle,
    pub(crate) size_bytes: u64,
    sequence: u64,
}

impl RestoredObject {
    fn new(handle: ObjectHandle, object: &ObjectRecord<'_>) -> RestoredObject {
        let (size_bytes, sequence) = (object.size_bytes, object.sequence);
        RestoredObject { handle, size_bytes, sequence }
    }
}

/// A range of an own object in a span of another shard.
pub(crate) type AlienRange = RangeHandle;

/// An object of which further replicas are to come.
#[derive(Clone, Copy, Debug)]
struct Several {
    object: RestoredObject,
    missing: u8,
}

/// A shard that is being restored.
#[derive(Debug)]
pub struct ShardRestore {
    shard: Shard,
    /// By their place in the records.
    segments: Vec<RestoredSegment>,
    /// The segment that ranges are laid down in.
    open: Option<u32>,
    owned: OwnedPages,
    /// Objects of which further replicas are to come, by ordinal.
    several: HashMap<u64, Several>,
    objects: u64,
    keys: RestoredKeys,
    /// What becomes the index.
    index: IndexBuilder,
}

impl Shard {
    /// The owner of a pending segment has proved that its memory is the same: what was restored on it
    /// is visible from now on.
    pub(super) fn open_again(&mut self, mount: Mount) {
        let Some(segment) = self.segments.of_mount(mount) else { return };
        if segment.lost {
            return;
        }
        segment.readable = true;
        let index = segment.index();
        self.segments.mark_changed(index);
    }

    /// Numbers puts above those of the master before.
    fn continue_sequences(&mut self, floor: u64) {
        let shard = u64::from(self.config.shard.0);
        self.next_sequence = (floor / SEQUENCE_STEP + 1) * SEQUENCE_STEP + shard;
    }
}

impl ShardRestore {
    /// A shard without ranges, on the segments of the pool's record. About so many objects will
    /// come; it may be any other number.
    pub fn new(config: ShardConfig, segments: &[RestoredSegment], objects: u64) -> ShardRestore {
        let keys = RestoredKeys::new(config.route);
        let mut shard = Shard::new(config);
        for segment in segments {
            shard.mount(segment.mount, segment.segment, segment.capacity_bytes, segment.page_bytes);
            shard.segments.at_mut(SegmentIndex(segment.mount.slot.0)).readable = false;
        }
        ShardRestore {
            shard,
            segments: segments.to_vec(),
            open: None,
            owned: Vec::new(),
            several: HashMap::new(),
            objects: 0,
            keys,
            index: IndexBuilder::with_capacity(usize::try_from(objects).unwrap_or(0)),
        }
    }

    /// Lays one range down. Ranges come in order of segment and offset.
    ///
    /// # Errors
    /// When it overlaps, is out of order or does not fit the others. Nothing of the shard may be used
    /// then.
    pub fn range(&mut self, record: &RangeRecord<'_>) -> Result<(), RestoreError> {
        let place = match record {
            RangeRecord::Object(object) => {
                let key = self.keys.add(object.key)?;
                return self.lay_object(object, key);
            }
            RangeRecord::Replica { place, .. } | RangeRecord::Hold { place, .. } => *place,
        };
        let segment = self.segment(place)?;
        match record {
            RangeRecord::Object(_) => unreachable!("objects were laid down above"),
            RangeRecord::Replica { ordinal, .. } => {
                let several = self.several.get_mut(ordinal).filter(|object| object.missing > 0);
                let Some(several) = several else {
                    return Err(RestoreError::Dangling(format!("a replica of object {ordinal}")));
                };
                several.missing -= 1;
                let object = several.object;
                let range = self.lay_used(segment, place, object.size_bytes)?;
                self.replica(range, &object)
            }
            RangeRecord::Hold { length_bytes, left_ms, .. } => {
                let range = self.lay_used(segment, place, *length_bytes)?;
                let until = Moment::from_ms(*left_ms);
                self.shard.ledger.restore_hold(range, until);
                self.shard.handed_over_until = self.shard.handed_over_until.max(until);
                Ok(())
            }
        }
    }

    /// Lends the keys out, to be filled elsewhere. Until they are back, objects come only by
    /// [`lay_object`](Self::lay_object).
    pub fn lend_keys(&mut self) -> RestoredKeys {
        let nothing = RestoredKeys::new(self.shard.config.route);
        std::mem::replace(&mut self.keys, nothing)
    }

    /// Takes back the keys that were lent, with those of all objects.
    pub fn return_keys(&mut self, keys: RestoredKeys) {
        self.keys = keys;
    }

    /// As [`range`](Self::range), for an object whose key is stored already. The key in the record
    /// does not matter.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    #[inline]
    pub fn lay_object(
        &mut self,
        object: &ObjectRecord<'_>,
        key: StoredKey,
    ) -> Result<(), RestoreError> {
        let segment = self.segment(object.place)?;
        let ordinal = self.objects;
        let range = self.lay_used(segment, object.place, object.size_bytes)?;
        let handle = self.stored_object(range, key, object)?;
        if let Some(missing) = object.replicas.checked_sub(1).filter(|left| *left > 0) {
            let object = RestoredObject::new(handle, object);
            self.several.insert(ordinal, Several { object, missing });
        }
        Ok(())
    }

    /// The segment of a place; begins it if it is the next one.
    pub(crate) fn segment(&mut self, place: RangePlace) -> Result<SegmentIndex, RestoreError> {
        let known = self.segments.get(place.segment as usize);
        let segment = known.ok_or_else(|| {
            RestoreError::Dangling(format!(
                "a range on segment {} of {}",
                place.segment,
                self.segments.len()
            ))
        })?;
        let index = SegmentIndex(segment.mount.slot.0);
        if self.open == Some(place.segment) {
            return Ok(index);
        }
        if self.open.is_some_and(|open| open > place.segment) {
            return Err(RestoreError::Overlap(format!("segment {} comes twice", place.segment)));
        }
        let capacity_bytes = segment.capacity_bytes;
        self.close_segment();
        self.shard.ledger.ranges_mut().begin_laying(index, capacity_bytes);
        self.open = Some(place.segment);
        Ok(index)
    }

    fn close_segment(&mut self) {
        if let Some(place) = self.open.take() {
            let slot = self.segments[place as usize].mount.slot;
            let runs = self.shard.ledger.ranges_mut().end_laying(SegmentIndex(slot.0));
            self.owned.push((slot, runs));
        }
    }

    /// Makes the object of a range that was laid down.
    pub(crate) fn object(
        &mut self,
        range: RangeHandle,
        object: &ObjectRecord<'_>,
    ) -> Result<RestoredObject, RestoreError> {
        let key = self.keys.add(object.key)?;
        let handle = self.stored_object(range, key, object)?;
        Ok(RestoredObject::new(handle, object))
    }

    /// Gives the handle alone: a larger outcome would be copied on the way to whoever asks, which for
    /// millions of objects is felt.
    fn stored_object(
        &mut self,
        range: RangeHandle,
        key: StoredKey,
        object: &ObjectRecord<'_>,
    ) -> Result<ObjectHandle, RestoreError> {
        if object.size_bytes == 0 || object.size_bytes > OBJECT_BYTES_MAX {
            let fault = format!("an object of {} bytes", object.size_bytes);
            return Err(RestoreError::Dangling(fault));
        }
        // A reader may hold a descriptor from just before: it gets a full lease, from the moment of
        // serving.
        let lease_until = Moment::from_ms(object.lease_left_ms.max(self.shard.config.lease_ttl_ms));
        self.shard.handed_over_until = self.shard.handed_over_until.max(lease_until);
        let idle_class = IdleClass::of_ms(object.idle_ms);
        let restored = Restored {
            key,
            size_bytes: object.size_bytes,
            sequence: object.sequence,
            lease_until,
            idle_class,
            hard_pin: object.hard_pin,
            soft_pin: object.soft_pin_left_ms.is_some(),
            reused: object.reused,
            range,
        };
        let handle = self.shard.ledger.restore_object(&mut self.shard.segments, &restored);
        if handle != key.object {
            return Err(RestoreError::Key("a key of another object".to_owned()));
        }
        self.index.add(key.tag, handle);
        if let Some(left_ms) = object.soft_pin_left_ms {
            self.shard.soft_pins.add(handle, Moment::from_ms(left_ms));
        }
        self.shard.ledger.restore_side(handle, &object.side);
        self.objects += 1;
        Ok(handle)
    }

    /// Gives a range that was laid down to an object as another replica.
    pub(crate) fn replica(
        &mut self,
        range: RangeHandle,
        object: &RestoredObject,
    ) -> Result<(), RestoreError> {
        let object = object.handle;
        let ranges = self.shard.ledger.ranges();
        let segment = ranges.segment(range);
        if self.shard.ledger.replicas(object).any(|other| ranges.segment(other) == segment) {
            return Err(RestoreError::Dangling("two replicas on one segment".to_owned()));
        }
        self.shard.ledger.restore_replica(&mut self.shard.segments, object, range);
        Ok(())
    }

    /// Lays a range of an own object down.
    pub(crate) fn lay_used(
        &mut self,
        segment: SegmentIndex,
        place: RangePlace,
        size_bytes: u64,
    ) -> Result<RangeHandle, RestoreError> {
        let ranges = self.shard.ledger.ranges_mut();
        ranges
            .lay(segment, place.offset_bytes, size_bytes, RangeState::Used, 0)
            .map_err(|error| overlap(place, error))
    }

    /// Lays a range down whose object is at home in another shard.
    pub(crate) fn lay_foreign(
        &mut self,
        segment: SegmentIndex,
        place: RangePlace,
        home: ShardId,
        alien: AlienRange,
        object: &RestoredObject,
    ) -> Result<(), RestoreError> {
        let ranges = self.shard.ledger.ranges_mut();
        let foreign = ranges
            .lay(segment, place.offset_bytes, object.size_bytes, RangeState::Foreign, 0)
            .map_err(|error| overlap(place, error))?;
        let home = Home { shard: home, alien, sequence: object.sequence };
        self.shard.ledger.abroad_mut().add_home(foreign, home);
        Ok(())
    }

    /// Makes a range of an own object that lies in a span of another shard.
    pub(crate) fn make_alien(
        &mut self,
        segment: SegmentIndex,
        place: RangePlace,
        size_bytes: u64,
        host: ShardId,
    ) -> Result<AlienRange, RestoreError> {
        let ranges = self.shard.ledger.ranges_mut();
        let alien = ranges
            .alien(segment, place.offset_bytes, size_bytes, 0)
            .map_err(|error| overlap(place, error))?;
        self.shard.ledger.abroad_mut().add_host(alien, host);
        Ok(alien)
    }

    /// Builds the index in about so many shares, for which `build_all` may have threads. It builds each
    /// of them. No object may come after it. Without it the index is built by
    /// [`finish`](Self::finish).
    pub fn build_index(
        &mut self,
        shares: usize,
        build_all: impl FnOnce(Vec<IndexShare>) -> Vec<BuiltShare>,
    ) {
        self.index.build(shares, build_all);
    }

    /// How many objects were restored.
    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// Ends the restore: the shard, and the pages that its ranges lie in. Puts are numbered above
    /// `sequence_floor`, the highest number that any shard has given.
    ///
    /// # Errors
    /// When records are missing, or two objects have one key.
    pub fn finish(
        mut self,
        objects: u64,
        sequence_floor: u64,
    ) -> Result<(Shard, OwnedPages), RestoreError> {
        self.close_segment();
        if self.objects != objects {
            let fault = format!("{} objects instead of {objects}", self.objects);
            return Err(RestoreError::Dangling(fault));
        }
        if self.several.values().any(|object| object.missing > 0) {
            return Err(RestoreError::Dangling("a replica is missing".to_owned()));
        }
        if self.shard.ledger.restore_keys(self.keys, self.index).is_err() {
            return Err(RestoreError::Key("a key stands twice".to_owned()));
        }
        self.shard.continue_sequences(sequence_floor);
        Ok((self.shard, self.owned))
    }
}

fn overlap(place: RangePlace, error: LayError) -> RestoreError {
    RestoreError::Overlap(format!("segment {} at {}: {error}", place.segment, place.offset_bytes))
}
