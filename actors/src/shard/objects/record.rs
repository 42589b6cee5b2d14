//! One object in 32 bytes.

use crate::moment::Moment;
use crate::shard::idle::IdleClass;
use crate::shard::keys::KeyAddress;

/// An object, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Object {
    /// Where its key is stored.
    pub(crate) key: KeyAddress,
    /// Bytes of its key.
    pub(crate) key_length: u16,
    /// What may be done with it.
    pub(crate) state: ObjectState,
    /// Its pins.
    pub(crate) flags: ObjectFlags,
    /// Bytes of its value, below 2^48.
    pub(crate) size_bytes: u64,
    /// Until when it may be read and so stays.
    pub(crate) lease_until: Moment,
    /// The range of its first replica; its meaning is the allocator's.
    pub(crate) first_range: u32,
    /// The number of the put that made it: the sequence of its token.
    pub(crate) sequence: u64,
}

/// What may be done with an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ObjectState {
    /// It is being written and not yet visible.
    Writing = 1,
    /// It can be read.
    Readable = 2,
}

/// What holds an object beyond its leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ObjectFlags {
    /// It is never evicted.
    pub(crate) hard_pin: bool,
    /// It is evicted after all others.
    pub(crate) soft_pin: bool,
}

/// The largest size of an object, 256 TiB less one byte.
pub(super) const OBJECT_BYTES_MAX: u64 = (1 << SIZE_BITS) - 1;

/// An object, packed. A size has 48 bits, a lease deadline 47.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ObjectRecord {
    /// In a free record: the next free one of the chunk.
    key: u32,
    key_length: u16,
    /// The state, the flags, and above them the idle class.
    marks: u16,
    /// The size, above it the high 15 bits of the lease deadline, and whether it was reused.
    size_and_lease_high: u64,
    lease_low: u32,
    first_range: u32,
    sequence: u64,
}

const _: () = assert!(size_of::<ObjectRecord>() == 32);

impl ObjectRecord {
    pub(super) fn new(object: Object) -> ObjectRecord {
        let mut record = ObjectRecord {
            key: object.key.raw(),
            key_length: object.key_length,
            marks: object.state as u16,
            size_and_lease_high: 0,
            lease_low: 0,
            first_range: object.first_range,
            sequence: object.sequence,
        };
        record.set_flags(object.flags);
        record.set_size_bytes(object.size_bytes);
        record.set_lease_until(object.lease_until);
        record
    }

    pub(super) fn free(next: u16) -> ObjectRecord {
        ObjectRecord {
            key: u32::from(next),
            key_length: 0,
            marks: FREE,
            size_and_lease_high: 0,
            lease_low: 0,
            first_range: 0,
            sequence: 0,
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.marks & STATE == FREE
    }

    pub(super) fn next_free(&self) -> u16 {
        self.key as u16
    }

    pub(super) fn object(&self) -> Object {
        Object {
            key: self.key(),
            key_length: self.key_length,
            state: self.state(),
            flags: self.flags(),
            size_bytes: self.size_bytes(),
            lease_until: self.lease_until(),
            first_range: self.first_range,
            sequence: self.sequence,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> KeyAddress {
        KeyAddress::from_raw(self.key)
    }

    pub(super) fn set_key(&mut self, key: KeyAddress) {
        self.key = key.raw();
    }

    #[inline]
    pub(super) fn key_length(&self) -> u16 {
        self.key_length
    }

    #[inline]
    pub(super) fn state(&self) -> ObjectState {
        if self.marks & STATE == ObjectState::Readable as u16 {
            ObjectState::Readable
        } else {
            ObjectState::Writing
        }
    }

    pub(super) fn set_state(&mut self, state: ObjectState) {
        self.marks = self.marks & !STATE | state as u16;
    }

    #[inline]
    pub(super) fn flags(&self) -> ObjectFlags {
        ObjectFlags { hard_pin: self.marks & HARD_PIN != 0, soft_pin: self.marks & SOFT_PIN != 0 }
    }

    pub(super) fn set_flags(&mut self, flags: ObjectFlags) {
        let pin = |pinned: bool, bit: u16| if pinned { bit } else { 0 };
        let pins = pin(flags.hard_pin, HARD_PIN) | pin(flags.soft_pin, SOFT_PIN);
        self.marks = self.marks & !(HARD_PIN | SOFT_PIN) | pins;
    }

    #[inline]
    pub(super) fn shrunk(&self) -> bool {
        self.marks & SHRUNK != 0
    }

    pub(super) fn set_shrunk(&mut self) {
        self.marks |= SHRUNK;
    }

    #[inline]
    pub(super) fn has_side(&self) -> bool {
        self.marks & SIDE != 0
    }

    pub(super) fn set_side(&mut self) {
        self.marks |= SIDE;
    }

    pub(super) fn idle_class(&self) -> IdleClass {
        IdleClass(self.marks >> IDLE_SHIFT)
    }

    /// Sets the class, which has [`IdleClass::BITS`] bits.
    #[inline]
    pub(super) fn set_idle_class(&mut self, class: IdleClass) {
        self.marks = self.marks & !(u16::MAX << IDLE_SHIFT) | class.0 << IDLE_SHIFT;
    }

    #[inline]
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_and_lease_high & OBJECT_BYTES_MAX
    }

    fn set_size_bytes(&mut self, size_bytes: u64) {
        assert!(size_bytes <= OBJECT_BYTES_MAX, "an object of {size_bytes} bytes has no record");
        self.size_and_lease_high = (self.size_and_lease_high & !OBJECT_BYTES_MAX) | size_bytes;
    }

    #[inline]
    pub(super) fn lease_until(&self) -> Moment {
        let high = (self.size_and_lease_high & !REUSED) >> SIZE_BITS;
        Moment::from_ms((high << 32) | u64::from(self.lease_low))
    }

    #[inline]
    pub(super) fn set_lease_until(&mut self, deadline: Moment) {
        let ms = deadline.as_ms().min(LEASE_MS_MAX);
        self.lease_low = ms as u32;
        self.size_and_lease_high =
            (self.size_and_lease_high & (OBJECT_BYTES_MAX | REUSED)) | ((ms >> 32) << SIZE_BITS);
    }

    #[inline]
    pub(super) fn reused(&self) -> bool {
        self.size_and_lease_high & REUSED != 0
    }

    #[inline]
    pub(super) fn set_reused(&mut self) {
        self.size_and_lease_high |= REUSED;
    }

    #[inline]
    pub(super) fn first_range(&self) -> u32 {
        self.first_range
    }

    pub(super) fn set_first_range(&mut self, range: u32) {
        self.first_range = range;
    }

    #[inline]
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}

const STATE: u16 = 3;
/// The state of a record without an object.
const FREE: u16 = 0;

const HARD_PIN: u16 = 1 << 2;
const SOFT_PIN: u16 = 1 << 3;
const SHRUNK: u16 = 1 << 4;
const SIDE: u16 = 1 << 5;

/// Where the idle class begins, at the top of the marks.
const IDLE_SHIFT: u32 = u16::BITS - IdleClass::BITS;

/// Bits of a size; the 15 above them belong to the lease deadline.
const SIZE_BITS: u32 = 48;

/// The topmost bit.
const REUSED: u64 = 1 << 63;

/// The latest lease deadline.
const LEASE_MS_MAX: u64 = (1 << 47) - 1;
