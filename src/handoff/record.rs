//! One range as bytes; see [`format`](super::format) for the layout.

mod head;

use mooring_actors::handoff::{ObjectRecord, RangePlace, RangeRecord, SideRecord};
use mooring_proto::ClientId;

use super::bytes::{Cursor, put_varint};
use super::format::{
    HAS_FIELDS, HAS_LEASE, HAS_REPLICAS, HAS_SEGMENT, HAS_SOFT_PIN, IS_HARD_PINNED, KIND_HOLD,
    KIND_MASK, KIND_OBJECT, KIND_REPLICA, OBJECT_BITS,
};
use head::{HEAD_BYTES_MAX, Head};

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
    reused: bool,
    replicas: u8,
    /// Where the tagged fields stand; none if both are equal.
    fields_start: u32,
    fields_end: u32,
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
                reused: object.reused,
                hard_pin: object.hard_pin,
                soft_pin_left_ms: object.soft_pin_left_ms,
                side: object.side(chunk),
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

    /// What stands in the tagged fields, in the chunk that the object was decoded from.
    #[inline]
    fn side<'a>(&self, chunk: &'a [u8]) -> SideRecord<'a> {
        if self.fields_start == self.fields_end {
            return SideRecord::default();
        }
        let fields = chunk.get(self.fields_start as usize..self.fields_end as usize);
        // Read once already when the record was decoded.
        fields.and_then(|fields| decode_fields(fields).ok()).unwrap_or_default().side
    }
}

impl Parsed {
    /// The same record without its key, and with its tagged fields in `kept` instead of the chunk.
    #[inline]
    pub(super) fn without_key(mut self, chunk: &[u8], kept: &mut Vec<u8>) -> Parsed {
        let Body::Object(object) = &mut self.body else { return self };
        object.key_bytes = 0;
        let (from, to) = (object.fields_start as usize, object.fields_end as usize);
        if let Some(fields) = chunk.get(from..to).filter(|fields| !fields.is_empty()) {
            // Never longer than the chunks, whose places have this width.
            object.fields_start = kept.len() as u32;
            kept.extend_from_slice(fields);
            object.fields_end = kept.len() as u32;
        }
        self
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

/// Appends a record. `before` is the place of the record before it in the same chunk: by reference,
/// because a copy of what was written in parts just now waits for these.
#[inline]
pub(super) fn encode(record: &RangeRecord<'_>, before: Option<&RangePlace>, chunk: &mut Vec<u8>) {
    let object = match record {
        RangeRecord::Object(object) => Some(object),
        RangeRecord::Replica { .. } | RangeRecord::Hold { .. } => None,
    };
    let with_fields = object.filter(|object| object.reused || !object.side.is_empty());
    let start = chunk.len();
    // Written in place: to gather it elsewhere and copy it waits for all the small writes.
    chunk.extend_from_slice(&[0; HEAD_BYTES_MAX]);
    let room = chunk.last_chunk_mut().expect("so many bytes were just appended");
    let length = encode_head(record, with_fields.is_some(), before, room);
    chunk.truncate(start + length);
    if let Some(object) = object {
        chunk.extend_from_slice(object.key);
    }
    if let Some(object) = with_fields {
        if object.side.is_empty() {
            // So many objects have this alone that it must cost next to nothing.
            chunk.extend_from_slice(&ONLY_REUSED);
        } else {
            encode_fields(&object.side, object.reused, chunk);
        }
    }
}

/// Writes everything of a record but its key and its fields; gives the length.
#[inline]
fn encode_head(
    record: &RangeRecord<'_>,
    has_fields: bool,
    before: Option<&RangePlace>,
    room: &mut [u8; HEAD_BYTES_MAX],
) -> usize {
    let mut head = Head::new(room);
    match record {
        RangeRecord::Object(object) => {
            let mut bits = KIND_OBJECT;
            bits |= if object.lease_left_ms != 0 { HAS_LEASE } else { 0 };
            bits |= if object.soft_pin_left_ms.is_some() { HAS_SOFT_PIN } else { 0 };
            bits |= if object.hard_pin { IS_HARD_PINNED } else { 0 };
            bits |= if object.replicas != 1 { HAS_REPLICAS } else { 0 };
            bits |= if has_fields { HAS_FIELDS } else { 0 };
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
        }
        RangeRecord::Replica { place, ordinal } => {
            head.place(KIND_REPLICA, *place, before);
            head.varint(*ordinal);
        }
        RangeRecord::Hold { place, length_bytes, left_ms } => {
            head.place(KIND_HOLD, *place, before);
            head.varint(*length_bytes);
            head.varint(*left_ms);
        }
    }
    head.length()
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
    let mut parsed = decode_body(&mut cursor, bits, before).ok_or(RecordFault::Malformed)?;
    if bits & HAS_FIELDS != 0 {
        let length = cursor.length().ok_or(RecordFault::Malformed)?;
        let start = cursor.position();
        let fields = decode_fields(cursor.take(length).ok_or(RecordFault::Malformed)?)?;
        if let Body::Object(object) = &mut parsed.body {
            object.reused = fields.reused;
            let place = |position| u32::try_from(position).map_err(|_| RecordFault::Malformed);
            (object.fields_start, object.fields_end) = (place(start)?, place(cursor.position())?);
        }
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
                reused: false,
                replicas,
                fields_start: 0,
                fields_end: 0,
            })
        }
        KIND_REPLICA => Body::Replica { ordinal: cursor.varint()? },
        _ => Body::Hold { length_bytes: cursor.varint()?, left_ms: cursor.varint()? },
    };
    Some(Parsed { place, body })
}

/// What the tagged fields of an object say.
#[derive(Clone, Copy, Debug, Default)]
struct Fields<'a> {
    side: SideRecord<'a>,
    reused: bool,
}

/// Appends the tagged fields of an object.
fn encode_fields(side: &SideRecord<'_>, reused: bool, chunk: &mut Vec<u8>) {
    let mut fields = Vec::with_capacity(FIELDS_BYTES + side.group.len());
    let mut field = |tag: u64, content: &[u8]| {
        put_varint(&mut fields, tag);
        put_varint(&mut fields, content.len() as u64);
        fields.extend_from_slice(content);
    };
    if let Some(writer) = side.writer {
        field(TAG_WRITER, &writer.0.to_le_bytes());
    }
    if let Some(checksum) = side.checksum {
        field(TAG_CHECKSUM, &checksum.to_le_bytes());
    }
    if side.data_type != 0 {
        field(TAG_DATA_TYPE, &[side.data_type]);
    }
    if !side.group.is_empty() {
        field(TAG_GROUP, side.group);
    }
    if reused {
        field(TAG_REUSED, &[]);
    }
    put_varint(chunk, fields.len() as u64);
    chunk.extend_from_slice(&fields);
}

/// What the tagged fields say. Those that are not known and may be skipped are.
fn decode_fields(fields: &[u8]) -> Result<Fields<'_>, RecordFault> {
    let mut found = Fields::default();
    let side = &mut found.side;
    let mut fields = Cursor::new(fields);
    while !fields.is_empty() {
        let tag = fields.varint().ok_or(RecordFault::Malformed)?;
        let content = fields.length().and_then(|length| fields.take(length));
        let content = content.ok_or(RecordFault::Malformed)?;
        match tag {
            TAG_WRITER => side.writer = Some(ClientId(u128::from_le_bytes(exactly(content)?))),
            TAG_CHECKSUM => side.checksum = Some(u64::from_le_bytes(exactly(content)?)),
            TAG_DATA_TYPE => [side.data_type] = exactly(content)?,
            TAG_GROUP => side.group = content,
            TAG_REUSED => {
                let [] = exactly(content)?;
                found.reused = true;
            }
            _ if tag.is_multiple_of(2) => {
                return Err(RecordFault::NotUnderstood("a record with the field", tag));
            }
            _ => {}
        }
    }
    Ok(found)
}

fn exactly<const N: usize>(content: &[u8]) -> Result<[u8; N], RecordFault> {
    content.try_into().map_err(|_| RecordFault::Malformed)
}

/// The tags of an object's fields. All are odd: a master that does not know them leaves them out.
const TAG_WRITER: u64 = 11;
const TAG_CHECKSUM: u64 = 13;
const TAG_DATA_TYPE: u64 = 15;
const TAG_GROUP: u64 = 17;
const TAG_REUSED: u64 = 19;

/// The length of all fields, the tag and the length of its content, which is none.
const ONLY_REUSED: [u8; 3] = [2, TAG_REUSED as u8, 0];

/// All fields with their tags and lengths, but for the name of the group.
const FIELDS_BYTES: usize = 18 + 10 + 3 + 4 + 2;

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
    fn what_only_some_objects_have_stands_in_fields_and_comes_back() {
        let side = SideRecord {
            writer: Some(ClientId(7 << 100)),
            checksum: Some(0),
            data_type: 2,
            group: b"request 9",
        };
        for (side, reused) in [(side, false), (side, true), (SideRecord::default(), true)] {
            let object = ObjectRecord {
                place: RangePlace { segment: 0, offset_bytes: 64 },
                replicas: 1,
                key: b"k",
                size_bytes: 1,
                sequence: 7,
                lease_left_ms: 0,
                idle_ms: 0,
                reused,
                hard_pin: false,
                soft_pin_left_ms: None,
                side,
            };
            let mut bytes = Vec::new();
            encode(&RangeRecord::Object(object), None, &mut bytes);
            let (parsed, end) = decode(&bytes, 0, None).unwrap();
            assert_eq!(end, bytes.len());
            assert_eq!(parsed.view(&bytes), RangeRecord::Object(object));
        }
    }

    #[test]
    fn a_known_field_of_another_length_is_malformed() {
        for tag in [11, 13, 15, 19] {
            let fault = decode(&with_fields(&[tag, 2, 0, 0]), 0, None).unwrap_err();
            assert_eq!(fault, RecordFault::Malformed, "{tag}");
        }
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
