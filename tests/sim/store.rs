//! The memory of stores, modelled: each range of bytes knows which put wrote it.

use std::collections::{BTreeMap, BTreeSet};

use mooring_actors::pool::message::Mount;
use mooring_proto::message::object::RangeDescriptor;
use mooring_proto::message::segment::SegmentEntry;
use mooring_proto::{ClientId, Incarnation};

use crate::cluster::maps::HashMap;
use crate::cluster::mount;

/// Which put wrote some bytes, and which of its bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The number of the put.
    pub(crate) sequence: u64,
    /// The address of its first byte: the bytes of an object differ from each other too.
    pub(crate) origin: u64,
}

/// The memory of one store process.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) base: u64,
    pub(crate) size_bytes: u64,
    /// The process that the memory belongs to; a store that checks each access knows another one by it.
    pub(crate) process: ClientId,
    pub(crate) checks_mounts: bool,
    /// The mounts that the store knows of and answers for, each with the master that granted it.
    pub(crate) mounts: BTreeSet<(Incarnation, Mount)>,
    /// The master that any of it was last mounted with.
    pub(crate) mounted_with: Option<Incarnation>,
    /// By first address: the end, and what is there.
    stamps: BTreeMap<u64, (u64, Stamp)>,
}

/// Why a store does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process has ended.
    Gone,
    /// The store does not have this mount.
    WrongMount,
}

/// All memory, and what the mounts mean.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    pub(crate) all: Vec<Memory>,
    places: HashMap<(Incarnation, Mount), Place>,
}

/// Where a mounted segment lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) memory: usize,
    pub(crate) process: ClientId,
    pub(crate) base: u64,
    pub(crate) size_bytes: u64,
}

impl Memory {
    pub(crate) fn new(
        base: u64,
        size_bytes: u64,
        process: ClientId,
        checks_mounts: bool,
    ) -> Memory {
        Memory {
            base,
            size_bytes,
            process,
            checks_mounts,
            mounts: BTreeSet::new(),
            mounted_with: None,
            stamps: BTreeMap::new(),
        }
    }

    /// The process has ended and another one has taken its place, with memory at this address.
    pub(crate) fn restart(&mut self, process: ClientId, base: u64) {
        self.process = process;
        self.base = base;
        self.mounted_with = None;
        self.mounts.clear();
        self.stamps.clear();
    }

    /// The process lives on with other memory, at another address.
    pub(crate) fn move_to(&mut self, base: u64) {
        self.base = base;
        self.mounts.clear();
        self.stamps.clear();
    }

    fn has(&self, place: &Place) -> bool {
        self.base <= place.base && place.base + place.size_bytes <= self.base + self.size_bytes
    }

    fn write(&mut self, address: u64, length_bytes: u64, stamp: Stamp) {
        let end = address + length_bytes;
        self.cut(address);
        self.cut(end);
        while let Some((&start, _)) = self.stamps.range(address..end).next() {
            self.stamps.remove(&start);
        }
        self.stamps.insert(address, (end, stamp));
    }

    /// Splits the stretch that crosses an address.
    fn cut(&mut self, address: u64) {
        if let Some((&start, &(end, stamp))) = self.stamps.range(..address).next_back()
            && end > address
        {
            self.stamps.insert(start, (address, stamp));
            self.stamps.insert(address, (end, stamp));
        }
    }

    /// What is there instead, if not all bytes bear the stamp.
    fn stray(&self, address: u64, length_bytes: u64, stamp: Stamp) -> Option<String> {
        let end = address + length_bytes;
        let mut at = address;
        let first = self.stamps.range(..=address).next_back();
        let rest = self.stamps.range(address + 1..end);
        for (&start, &(stretch_end, found)) in first.into_iter().chain(rest) {
            if stretch_end <= at {
                continue;
            }
            if start > at {
                break;
            }
            if found != stamp {
                return Some(format!("{found:?} at {:#x}", at.max(start)));
            }
            at = stretch_end;
        }
        (at < end).then(|| format!("nothing at {at:#x}"))
    }
}

impl Memories {
    /// Learns a row of the segment table of a master.
    pub(crate) fn learn(&mut self, master: Incarnation, entry: &SegmentEntry) {
        let mount = mount(entry.slot, entry.generation);
        let memory = memory_number(&entry.segment.endpoint);
        self.places.entry((master, mount)).or_insert(Place {
            memory,
            process: entry.client,
            base: entry.segment.base,
            size_bytes: entry.segment.size_bytes,
        });
    }

    /// Where a mount lies.
    pub(crate) fn place(&self, master: Incarnation, mount: Mount) -> Option<Place> {
        self.places.get(&(master, mount)).copied()
    }

    /// The place and the address that a descriptor of a master names.
    pub(crate) fn address(
        &self,
        master: Incarnation,
        descriptor: RangeDescriptor,
    ) -> Option<(Place, u64)> {
        let place = self.place(master, mount(descriptor.slot, descriptor.generation))?;
        Some((place, place.base + descriptor.offset_bytes))
    }

    /// Writes bytes of a put; `from_byte` counts from the start of the object.
    pub(crate) fn write(
        &mut self,
        (master, descriptor): (Incarnation, RangeDescriptor),
        sequence: u64,
        from_byte: u64,
        length_bytes: u64,
        shift_bytes: u64,
    ) -> Result<(), Fault> {
        let (place, origin) = self.reach(master, descriptor)?;
        let stamp = Stamp { sequence, origin };
        let address = origin + from_byte + shift_bytes;
        self.all[place.memory].write(address, length_bytes, stamp);
        Ok(())
    }

    /// Reads a whole object and says what is wrong with its bytes, if anything.
    pub(crate) fn read(
        &self,
        (master, descriptor): (Incarnation, RangeDescriptor),
        sequence: u64,
        size_bytes: u64,
    ) -> Result<Option<String>, Fault> {
        let (place, origin) = self.reach(master, descriptor)?;
        let stamp = Stamp { sequence, origin };
        Ok(self.all[place.memory].stray(origin, size_bytes, stamp))
    }

    fn reach(
        &self,
        master: Incarnation,
        descriptor: RangeDescriptor,
    ) -> Result<(Place, u64), Fault> {
        let (place, address) = self.address(master, descriptor).ok_or(Fault::WrongMount)?;
        let memory = &self.all[place.memory];
        // Where nobody asks the process, an address is all there is to tell its memory.
        let is_other = memory.checks_mounts && memory.process != place.process;
        if is_other || !memory.has(&place) {
            return Err(Fault::Gone);
        }
        let mount = mount(descriptor.slot, descriptor.generation);
        if memory.checks_mounts && !memory.mounts.contains(&(master, mount)) {
            return Err(Fault::WrongMount);
        }
        Ok((place, address))
    }
}

/// The endpoint of a memory.
pub(crate) fn endpoint(memory: usize) -> String {
    format!("store-{memory}:7000")
}

fn memory_number(endpoint: &str) -> usize {
    let digits = endpoint.trim_start_matches("store-").trim_end_matches(":7000");
    digits.parse().expect("every endpoint was made by this model")
}
