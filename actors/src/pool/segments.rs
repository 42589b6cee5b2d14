//! All segments: the slots they sit in, and the ways to find them.

use std::collections::{BTreeMap, BTreeSet};

use mooring_proto::message::segment::Segment;
use mooring_proto::{ClientId, SegmentId, SegmentsDigest};

use super::message::{Generation, Mount, SegmentSlot};
use super::segment::{MountedSegment, Phase};

/// The segments of the pool.
#[derive(Debug)]
pub(super) struct Segments {
    shards: u16,
    first_generation: u32,
    slots: Vec<Slot>,
    /// Slots below `slots.len()` that are free.
    vacant: BTreeSet<SegmentSlot>,
    by_id: BTreeMap<SegmentId, SegmentSlot>,
    /// Disjoint memory of one address space, leaving segments included.
    by_client: BTreeMap<(ClientId, u64), SegmentSlot>,
    /// The same by endpoint: two clients that name one endpoint name one memory.
    by_endpoint: BTreeMap<String, BTreeMap<u64, SegmentSlot>>,
    /// Segments in the phase `Open`.
    placeable: BTreeSet<SegmentSlot>,
    /// The mounted segments of each client that has any.
    by_owner: BTreeMap<ClientId, Own>,
}

/// The mounted segments of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// How many there are, pending ones included.
    pub(super) segments: u32,
    /// Those that it keeps.
    pub(super) kept: SegmentsDigest,
}

impl Own {
    fn with(self, segment: &MountedSegment) -> Own {
        let id = segment.identity.segment;
        Own {
            segments: self.segments + u32::from(segment.is_mounted()),
            kept: if segment.is_kept() { self.kept.with(id) } else { self.kept },
        }
    }

    fn without(self, segment: &MountedSegment) -> Own {
        let id = segment.identity.segment;
        Own {
            segments: self.segments - u32::from(segment.is_mounted()),
            kept: if segment.is_kept() { self.kept.without(id) } else { self.kept },
        }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    segment: Option<Box<MountedSegment>>,
}

impl Segments {
    /// No segments; generations start above `first_generation`.
    pub(super) fn new(shards: u16, first_generation: u32) -> Segments {
        Segments {
            shards,
            first_generation,
            slots: Vec::new(),
            vacant: BTreeSet::new(),
            by_id: BTreeMap::new(),
            by_client: BTreeMap::new(),
            by_endpoint: BTreeMap::new(),
            placeable: BTreeSet::new(),
            by_owner: BTreeMap::new(),
        }
    }

    /// The segment in a slot, whatever its phase.
    pub(super) fn at(&self, slot: SegmentSlot) -> Option<&MountedSegment> {
        self.slots.get(usize::from(slot.0))?.segment.as_deref()
    }

    /// The same, to change.
    pub(super) fn at_mut(&mut self, slot: SegmentSlot) -> Option<&mut MountedSegment> {
        self.slots.get_mut(usize::from(slot.0))?.segment.as_deref_mut()
    }

    /// The segment of exactly this mount, whatever its phase.
    pub(super) fn of_mount(&mut self, mount: Mount) -> Option<&mut MountedSegment> {
        self.at_mut(mount.slot).filter(|segment| segment.mount == mount)
    }

    /// The segment of exactly this mount, unless it is lost.
    pub(super) fn mounted(&mut self, mount: Mount) -> Option<&mut MountedSegment> {
        self.of_mount(mount).filter(|segment| segment.is_mounted())
    }

    /// The segment of exactly this mount, if objects may be placed on it.
    pub(super) fn open(&mut self, mount: Mount) -> Option<&mut MountedSegment> {
        self.of_mount(mount).filter(|segment| segment.phase == Phase::Open)
    }

    /// The segment with this id, leaving ones included.
    pub(super) fn by_id(&self, id: SegmentId) -> Option<&MountedSegment> {
        self.at(*self.by_id.get(&id)?)
    }

    /// The segments, mounted or leaving, whose memory overlaps the given one: in the address space
    /// of the client, or behind the same endpoint. One may come twice.
    pub(super) fn overlapping<'a>(
        &'a self,
        client: ClientId,
        memory: &'a Segment,
    ) -> impl Iterator<Item = &'a MountedSegment> + 'a {
        let end = memory.base + memory.size_bytes;
        // The memory of one client is disjoint, and so is that of one endpoint: walking back ends at
        // the first segment that lies wholly below.
        let overlaps = move |other: &&MountedSegment| {
            other.identity.base + other.identity.size_bytes > memory.base
        };
        let own = self.by_client.range((client, 0)..(client, end)).rev();
        let own = own.filter_map(|(_, &slot)| self.at(slot)).take_while(overlaps);
        let endpoint = self.by_endpoint.get(&memory.endpoint).into_iter();
        let endpoint = endpoint.flat_map(move |segments| segments.range(..end).rev());
        own.chain(endpoint.filter_map(|(_, &slot)| self.at(slot)).take_while(overlaps))
    }

    /// How many more segments fit into the table.
    pub(super) fn room(&self) -> usize {
        SLOTS_MAX - self.slots.len() + self.vacant.len()
    }

    /// Puts a segment into a slot. There must be room, and no other segment may have its id or
    /// overlap it.
    pub(super) fn insert(&mut self, client: ClientId, identity: Segment) -> Option<Mount> {
        let slot = match self.vacant.pop_first() {
            Some(slot) => slot,
            None => {
                let slot = SegmentSlot(u16::try_from(self.slots.len()).ok()?);
                self.slots.push(Slot { generation: self.first_generation, segment: None });
                slot
            }
        };
        let generation = self.slots[usize::from(slot.0)].generation + 1;
        Some(self.place(slot, generation, client, identity))
    }

    /// Puts a segment into a slot that is free. The same must hold as for `insert`, and the slot must
    /// not have had the generation.
    pub(super) fn insert_at(&mut self, mount: Mount, client: ClientId, identity: Segment) {
        while self.slots.len() <= usize::from(mount.slot.0) {
            self.vacant.insert(SegmentSlot(self.slots.len() as u16));
            self.slots.push(Slot { generation: self.first_generation, segment: None });
        }
        self.vacant.remove(&mount.slot);
        self.place(mount.slot, mount.generation.0, client, identity);
    }

    fn place(
        &mut self,
        slot: SegmentSlot,
        generation: u32,
        client: ClientId,
        identity: Segment,
    ) -> Mount {
        let place = &mut self.slots[usize::from(slot.0)];
        place.generation = generation;
        let mount = Mount { slot, generation: Generation(generation) };
        self.by_id.insert(identity.segment, slot);
        self.by_client.insert((client, identity.base), slot);
        let endpoint = self.by_endpoint.entry(identity.endpoint.clone()).or_default();
        endpoint.insert(identity.base, slot);
        let segment = MountedSegment::new(mount, client, identity, self.shards);
        let own = self.by_owner.entry(client).or_default();
        *own = own.with(&segment);
        place.segment = Some(Box::new(segment));
        self.placeable.insert(slot);
        mount
    }

    /// The highest generation that any slot has had.
    pub(super) fn generation_max(&self) -> u32 {
        let generations = self.slots.iter().map(|slot| slot.generation);
        generations.max().unwrap_or(0).max(self.first_generation)
    }

    /// Moves a segment to another phase.
    pub(super) fn set_phase(&mut self, slot: SegmentSlot, phase: Phase) {
        self.change(slot, |segment| {
            segment.phase = phase;
            segment.announced = None;
        });
        if phase == Phase::Open {
            self.placeable.insert(slot);
        } else {
            self.placeable.remove(&slot);
        }
    }

    /// Notes whether the owner of a segment has asked for its end.
    pub(super) fn set_given_up(&mut self, slot: SegmentSlot, given_up: bool) {
        self.change(slot, |segment| segment.given_up = given_up);
    }

    /// Changes something that what is known of the owner depends on.
    fn change(&mut self, slot: SegmentSlot, change: impl FnOnce(&mut MountedSegment)) {
        let place = self.slots.get_mut(usize::from(slot.0));
        let Some(segment) = place.and_then(|place| place.segment.as_deref_mut()) else { return };
        let own = self.by_owner.entry(segment.client).or_default();
        *own = own.without(segment);
        change(segment);
        *own = own.with(segment);
        if own.segments == 0 {
            self.by_owner.remove(&segment.client);
        }
    }

    /// Forgets a leaving segment; its slot is free for another one.
    pub(super) fn remove(&mut self, slot: SegmentSlot) {
        let Some(segment) = self.slots[usize::from(slot.0)].segment.take() else { return };
        let identity = &segment.identity;
        self.by_id.remove(&identity.segment);
        self.by_client.remove(&(segment.client, identity.base));
        if let Some(endpoint) = self.by_endpoint.get_mut(&identity.endpoint) {
            endpoint.remove(&identity.base);
            if endpoint.is_empty() {
                self.by_endpoint.remove(&identity.endpoint);
            }
        }
        // A slot whose generations are used up is never used again.
        if self.slots[usize::from(slot.0)].generation < u32::MAX {
            self.vacant.insert(slot);
        }
    }

    /// All segments in the order of their slots, leaving ones included.
    pub(super) fn iter(&self) -> impl Iterator<Item = &MountedSegment> {
        self.slots.iter().filter_map(|slot| slot.segment.as_deref())
    }

    /// The slots of the segments on which objects may be placed.
    pub(super) fn placeable(&self) -> &BTreeSet<SegmentSlot> {
        &self.placeable
    }

    /// The slots of a client's mounted segments.
    pub(super) fn mounted_of(&self, client: ClientId) -> Vec<SegmentSlot> {
        let slots = self.by_client.range((client, 0)..=(client, u64::MAX)).map(|(_, &slot)| slot);
        slots.filter(|&slot| self.at(slot).is_some_and(MountedSegment::is_mounted)).collect()
    }

    /// What a client has mounted.
    pub(super) fn own_of(&self, client: ClientId) -> Own {
        self.by_owner.get(&client).copied().unwrap_or_default()
    }

    /// Whether every way to find a segment leads to the right one.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut by_owner: BTreeMap<ClientId, Own> = BTreeMap::new();
        let mut total = 0;
        for segment in self.iter() {
            segment.check()?;
            total += 1;
            let slot = segment.mount.slot;
            let identity = &segment.identity;
            let endpoint = self.by_endpoint.get(&identity.endpoint);
            let found = self.by_id.get(&identity.segment) == Some(&slot)
                && self.by_client.get(&(segment.client, identity.base)) == Some(&slot)
                && endpoint.and_then(|bases| bases.get(&identity.base)) == Some(&slot)
                && self.placeable.contains(&slot) == (segment.phase == Phase::Open);
            if !found {
                return Err(format!("{:?} is not where the indexes say", segment.mount));
            }
            if segment.is_mounted() {
                let own = by_owner.entry(segment.client).or_default();
                *own = own.with(segment);
            }
        }
        let endpoints: usize = self.by_endpoint.values().map(BTreeMap::len).sum();
        if [self.by_id.len(), self.by_client.len(), endpoints] != [total; 3] {
            return Err("an index holds a segment that is gone".to_owned());
        }
        if by_owner != self.by_owner {
            return Err("what is known of the clients' segments is wrong".to_owned());
        }
        Ok(())
    }
}

/// As many as a slot's number can tell apart.
const SLOTS_MAX: usize = 1 << 16;
