//! Format 1 of a snapshot: one manifest, and one file for each shard of the master that wrote it.
//!
//! Nothing in it depends on the number of shards of the reader or on how either end lays its memory
//! out. Integers are little-endian; a *varint* has seven bits a byte, the lowest first. Checksums
//! are CRC-32C.
//!
//! **Preamble** (16 bytes, of both kinds of file, of this and of every later format):
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `MOORHAND` in a manifest, `MOORSHRD` in the file of a shard |
//! | 4 | the format |
//! | 4 | checksum of these 12 bytes |
//!
//! So a format that is not known is told from a damaged file.
//!
//! **Manifest**: preamble; the length of the whole file (8); sections; the checksum of everything
//! before (4). A section is a tag (2), a length (4) and that many bytes. A tag from
//! [`REQUIRED_TAG`] on must be understood, another one may be skipped. What later versions add,
//! also what they add to a segment or a client, comes in sections of its own, and the content of a
//! section never changes. The sections are listed in [`manifest`](super::manifest).
//!
//! **File of a shard**: preamble; its index (4), the incarnation of its writer (8), the checksum of
//! these 12 bytes (4); chunks; an empty chunk as its end. A chunk of about 1 MiB is the checksum of
//! everything that follows in it (4), the length of its payload (4), the number of its records (4),
//! its own number from zero (4), and the payload. The manifest has the length and the checksum of
//! each file.
//!
//! **Record**: one byte, whose lowest two bits are the kind, then varints:
//!
//! | kind | after the place |
//! | --- | --- |
//! | 0 object | size, sequence, idle, \[lease left\], \[soft pin left\], \[replicas, if not 1\], length of the key, key |
//! | 1 replica | ordinal |
//! | 2 hold | length, time left |
//!
//! The place is the segment (if bit 2 says so; then an absolute offset follows) or just the distance
//! from the offset of the record before. The first record of a chunk names its segment. Bit 3 says
//! that tagged fields end the record: the length of all, then for each a tag, a length and that many
//! bytes. An odd tag may be skipped, an even one must be understood. An object may have 11, its
//! writer (16), 13, its checksum (8), 15, its data type (1), 17, the name of its group, and 19 (0),
//! that it was reused. The other bits of an object: 4 lease, 5 soft pin, 6 hard pin, 7 replicas.

use super::ReadError;

/// The format that this version writes, and the only one that it reads.
pub(crate) const FORMAT: u32 = 1;

/// The first bytes of a manifest.
pub(super) const MANIFEST_MAGIC: [u8; 8] = *b"MOORHAND";

/// The first bytes of the file of a shard.
pub(super) const SHARD_MAGIC: [u8; 8] = *b"MOORSHRD";

/// The length of the part that all formats share.
pub(super) const PREAMBLE_BYTES: usize = 16;

/// The length of everything before the chunks.
pub(super) const SHARD_HEADER_BYTES: usize = PREAMBLE_BYTES + 16;

/// The length of everything before the payload of a chunk.
pub(super) const CHUNK_HEADER_BYTES: usize = 16;

/// A chunk ends after the record that fills it to this: small enough to stay in the cache between
/// encoding, checksum and write, large enough that neither costs anything for a record.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// A longer payload is damage, not a reason to allocate.
pub(super) const CHUNK_BYTES_MAX: usize = CHUNK_BYTES + RECORD_BYTES_MAX;

/// Longer than any record, with room for fields to come: a key is at most 4 KiB.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 10;

/// A longer manifest is damage: about 400 bytes for each of 65,536 segments and of as many clients
/// are a fifth of it.
pub(super) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// Sections with this bit in their tag must be understood.
pub(super) const REQUIRED_TAG: u16 = 0x8000;

pub(super) const KIND_MASK: u8 = 0b11;
pub(super) const KIND_OBJECT: u8 = 0;
pub(super) const KIND_REPLICA: u8 = 1;
pub(super) const KIND_HOLD: u8 = 2;
pub(super) const HAS_SEGMENT: u8 = 1 << 2;
pub(super) const HAS_FIELDS: u8 = 1 << 3;
pub(super) const HAS_LEASE: u8 = 1 << 4;
pub(super) const HAS_SOFT_PIN: u8 = 1 << 5;
pub(super) const IS_HARD_PINNED: u8 = 1 << 6;
pub(super) const HAS_REPLICAS: u8 = 1 << 7;

/// Bits that only an object has.
pub(super) const OBJECT_BITS: u8 = HAS_LEASE | HAS_SOFT_PIN | IS_HARD_PINNED | HAS_REPLICAS;

/// The preamble of a file of this format.
pub(super) fn preamble(magic: [u8; 8]) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Checks that a file is of this kind and format.
///
/// # Errors
/// Corrupt if it is no such file or damaged, a format if it is whole but of another one.
pub(super) fn check_preamble(name: &str, bytes: &[u8], magic: [u8; 8]) -> Result<(), ReadError> {
    match format_of(bytes, magic) {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(ReadError::Format { name: name.to_owned(), found }),
        None => Err(ReadError::corrupt(name, "does not begin as such a file does")),
    }
}

/// The format that a whole preamble tells.
pub(super) fn format_of(bytes: &[u8], magic: [u8; 8]) -> Option<u32> {
    let mut cursor = super::bytes::Cursor::new(bytes);
    let (found, format, checksum) = (cursor.array::<8>()?, cursor.u32()?, cursor.u32()?);
    (found == magic && crc32c::crc32c(&bytes[..12]) == checksum).then_some(format)
}
