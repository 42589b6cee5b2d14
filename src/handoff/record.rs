//! One range as bytes; see [`format`](super::format) for the layout.

use mooring_actors::handoff::{ObjectRecord, RangePlace, RangeRecord};

use super::bytes::Cursor;
use super::format::{
    HAS_FIELDS, HAS_LEASE, HAS_REPLICAS, HAS_SEGMENT, HAS_SOFT_PIN, IS_HARD_PINNED, KIND_HOLD,
    KIND_MASK, KIND_OBJECT, KIND_REPLICA, OBJECT_BITS,
};

/// A record that was decoded, with its key still in the chunk. It is copied where a record that
/// borrows the chunk could not be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parsed {
    /// Where the range lies.
    pub(super) place: RangePlace,
    pub(super) body: Body,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    Object(ParsedObject),
    Replica { ordinal: u64 },
    Hold { length_bytes: u64, left_ms: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ParsedObject {
    pub(super) key_start: u32,
    pub(super) key_bytes: u32,
    size_bytes: u64,
    sequence: u64,
    idle_ms: u64,
    lease_left_ms: u64,
    soft_pin_left_ms: Option<u64>,
    hard_pin: bool,
    replicas: u8,
}

impl Parsed {
    /// The record, with the key in the chunk that it was decoded from.
    #[inline]
    pub(super) fn view<'a>(&self, chunk: &'a [u8]) -> RangeRecord<'a> {
        let place = self.place;
        match self.body {
            Body::Object(object) => RangeRecord::Object(ObjectRecord {
                place,
                replicas: object.replicas,
                key: object.key(chunk),
                size_bytes: object.size_bytes,
                sequence: object.sequence,
                lease_left_ms: object.lease_left_ms,
                idle_ms: object.idle_ms,
                hard_pin: object.hard_pin,
                soft_pin_left_ms: object.soft_pin_left_ms,
            }),
            Body::Replica { ordinal } => RangeRecord::Replica { place, ordinal },
            Body::Hold { length_bytes, left_ms } => {
                RangeRecord::Hold { place, length_bytes, left_ms }
            }
        }
    }
}

impl ParsedObject {
    /// The key, in the chunk that the object was decoded from.
    #[inline]
    pub(super) fn key<'a>(&self, chunk: &'a [u8]) -> &'a [u8] {
        let start = self.key_start as usize;
        chunk.get(start..start + self.key_bytes as usize).unwrap_or_default()
    }
}

/// Why a record cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFault {
    /// It is not whole, or says what cannot be.
    Malformed,
    /// It is of a kind, has a bit, or has a field that this version does not understand.
    NotUnderstood(&'static str, u64),
}

/// Appends a record. `before` is the place of the record before it in the same chunk.
#[inline]
pub(super) fn encode(record: &RangeRecord<'_>, before: Option<RangePlace>, chunk: &mut Vec<u8>) {
    let mut head = Head::new();
    match record {
        RangeRecord::Object(object) => {
            let mut bits = KIND_OBJECT;
            bits |= if object.lease_left_ms != 0 { HAS_LEASE } else { 0 };
            bits |= if object.soft_pin_left_ms.is_some() { HAS_SOFT_PIN } else { 0 };
            bits |= if object.hard_pin { IS_HARD_PINNED } else { 0 };
            bits |= if object.replicas != 1 { HAS_REPLICAS } else { 0 };
            head.place(bits, object.place, before);
            head.varint(object.size_bytes);
            head.varint(object.sequence);
            head.varint(object.idle_ms);
            if object.lease_left_ms != 0 {
                head.varint(object.lease_left_ms);
            }
            if let Some(left_ms) = object.soft_pin_left_ms {
                head.varint(left_ms);
            }
            if object.replicas != 1 {
                head.byte(object.replicas);
            }
            head.varint(object.key.len() as u64);
            chunk.extend_from_slice(head.bytes());
            chunk.extend_from_slice(object.key);
        }
        RangeRecord::Replica { place, ordinal } => {
            head.place(KIND_REPLICA, *place, before);
            head.varint(*ordinal);
            chunk.extend_from_slice(head.bytes());
        }
        RangeRecord::Hold { place, length_bytes, left_ms } => {
            head.place(KIND_HOLD, *place, before);
            head.varint(*length_bytes);
            head.varint(*left_ms);
            chunk.extend_from_slice(head.bytes());
        }
    }
}

/// Decodes the record at a place in a chunk; gives it with the place of the next one.
#[inline]
pub(super) fn decode(
    chunk: &[u8],
    position: usize,
    before: Option<RangePlace>,
) -> Result<(Parsed, usize), RecordFault> {
    let mut cursor = Cursor::at(chunk, position);
    let bits = cursor.u8().ok_or(RecordFault::Malformed)?;
    let kind = bits & KIND_MASK;
    if kind != KIND_OBJECT && (bits & OBJECT_BITS != 0 || kind > KIND_HOLD) {
        return Err(RecordFault::NotUnderstood("a record that begins with", u64::from(bits)));
    }
    let parsed = decode_body(&mut cursor, bits, before).ok_or(RecordFault::Malformed)?;
    if bits & HAS_FIELDS != 0 {
        skip_fields(&mut cursor)?;
    }
    Ok((parsed, cursor.position()))
}

#[inline]
fn decode_body(cursor: &mut Cursor<'_>, bits: u8, before: Option<RangePlace>) -> Option<Parsed> {
    let place = if bits & HAS_SEGMENT != 0 {
        RangePlace { segment: cursor.varint_u32()?, offset_bytes: cursor.varint()? }
    } else {
        let before = before?;
        let offset_bytes = before.offset_bytes.checked_add(cursor.varint()?)?;
        RangePlace { segment: before.segment, offset_bytes }
    };
    let body = match bits & KIND_MASK {
        KIND_OBJECT => {
            let (size_bytes, sequence) = (cursor.varint()?, cursor.varint()?);
            let idle_ms = cursor.varint()?;
            let lease_left_ms = if bits & HAS_LEASE != 0 { cursor.varint()? } else { 0 };
            let soft_pin_left_ms =
                if bits & HAS_SOFT_PIN != 0 { Some(cursor.varint()?) } else { None };
            let replicas = if bits & HAS_REPLICAS != 0 { cursor.u8()? } else { 1 };
            let key_bytes = cursor.varint_u32()?;
            let key_start = u32::try_from(cursor.position()).ok()?;
            cursor.take(key_bytes as usize)?;
            Body::Object(ParsedObject {
                key_start,
                key_bytes,
                size_bytes,
                sequence,
                idle_ms,
                lease_left_ms,
                soft_pin_left_ms,
                hard_pin: bits & IS_HARD_PINNED != 0,
                replicas,
            })
        }
        KIND_REPLICA => Body::Replica { ordinal: cursor.varint()? },
        _ => Body::Hold { length_bytes: cursor.varint()?, left_ms: cursor.varint()? },
    };
    Some(Parsed { place, body })
}

/// This version knows no field: those that may be skipped are.
#[cold]
fn skip_fields(cursor: &mut Cursor<'_>) -> Result<(), RecordFault> {
    let fields = cursor.length().and_then(|length| cursor.take(length));
    let mut fields = Cursor::new(fields.ok_or(RecordFault::Malformed)?);
    while !fields.is_empty() {
        let tag = fields.varint().ok_or(RecordFault::Malformed)?;
        let content = fields.length().and_then(|length| fields.take(length));
        content.ok_or(RecordFault::Malformed)?;
        if tag.is_multiple_of(2) {
            return Err(RecordFault::NotUnderstood("a record with the field", tag));
        }
    }
    Ok(())
}

/// Everything of a record but its key, gathered on the stack so that the chunk grows once.
struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl Head {
    #[inline]
    fn new() -> Head {
        Head { bytes: [0; HEAD_BYTES_MAX], length: 0 }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline]
    fn place(&mut self, bits: u8, place: RangePlace, before: Option<RangePlace>) {
        match before.filter(|before| before.segment == place.segment) {
            Some(before) => {
                self.byte(bits);
                // The writer refuses what is out of order before it comes here.
                self.varint(place.offset_bytes.saturating_sub(before.offset_bytes));
            }
            None => {
                self.byte(bits | HAS_SEGMENT);
                self.varint(u64::from(place.segment));
                self.varint(place.offset_bytes);
            }
        }
    }
}

/// The bits, the replicas, two varints of 32 bits and six of 64.
const HEAD_BYTES_MAX: usize = 1 + 1 + 2 * 5 + 6 * 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// An object without a key at an offset, with a block of fields.
    fn with_fields(fields: &[u8]) -> Vec<u8> {
        let mut bytes = vec![KIND_OBJECT | HAS_SEGMENT | HAS_FIELDS, 0, 64, 1, 7, 0, 0];
        bytes.push(u8::try_from(fields.len()).unwrap());
        bytes.extend_from_slice(fields);
        bytes
    }

    #[test]
    fn a_field_that_may_be_skipped_is() {
        let bytes = with_fields(&[3, 2, 0xaa, 0xbb, 5, 0]);
        let (parsed, end) = decode(&bytes, 0, None).unwrap();
        assert_eq!(parsed.place, RangePlace { segment: 0, offset_bytes: 64 });
        assert_eq!(end, bytes.len());
    }

    #[test]
    fn a_field_that_must_be_understood_is_refused() {
        let fault = decode(&with_fields(&[3, 0, 4, 1, 0xaa]), 0, None).unwrap_err();
        assert_eq!(fault, RecordFault::NotUnderstood("a record with the field", 4));
    }

    #[test]
    fn a_block_of_fields_that_is_not_whole_is_malformed() {
        for fields in [&[3][..], &[3, 2, 0xaa], &[0x80]] {
            assert_eq!(
                decode(&with_fields(fields), 0, None).unwrap_err(),
                RecordFault::Malformed,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn kinds_and_bits_of_tomorrow_are_not_understood() {
        for bits in [3, KIND_REPLICA | HAS_LEASE, KIND_HOLD | HAS_REPLICAS] {
            let fault = decode(&[bits | HAS_SEGMENT, 0, 0, 0, 0, 0], 0, None).unwrap_err();
            assert!(matches!(fault, RecordFault::NotUnderstood(..)), "{bits}");
        }
    }

    #[test]
    fn a_distance_needs_a_record_before_it_and_must_not_overflow() {
        let bytes = [KIND_REPLICA, 1, 0];
        assert_eq!(decode(&bytes, 0, None).unwrap_err(), RecordFault::Malformed);
        let last = RangePlace { segment: 0, offset_bytes: u64::MAX };
        assert_eq!(decode(&bytes, 0, Some(last)).unwrap_err(), RecordFault::Malformed);
    }
}
