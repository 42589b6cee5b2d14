//! The manifest of a snapshot: everything but the ranges, and what the files of the ranges must be.
//!
//! Sections of format 1, all of them to be understood and all but the last always there, in the
//! notation of [`format`](super::format):
//!
//! | tag | content |
//! | --- | --- |
//! | `8001` origin | created (wall clock, ms since 1970), incarnation (8), seed of the route (8), version of the writer (text) |
//! | `8002` settings | lease TTL, client TTL, discard timeout, release timeout of unfinished puts, ms |
//! | `8003` segments | list: client (16), segment (16), base, size, endpoint (text), certificate (optional, 32), slot, generation, mounted with (8), drain left (optional), quarantine left (optional) |
//! | `8004` remnants | list: endpoint (text), address, length, left, whole (1) |
//! | `8005` table | highest generation, epoch |
//! | `8006` clients | list: client (16), name (text), segments |
//! | `8007` shards | list, in the order of their files: length, checksum (4), objects, holds, aliens, next sequence, ranges, bytes of keys |
//! | `8008` engines | list of the segments that a transfer engine reaches: place in the list of segments, name (text), protocol (text), host (text) |
//!
//! Numbers without a width are varints, an optional value is preceded by a byte 0 or 1, texts and
//! lists are preceded by their length.

mod codec;

use mooring_actors::core::Settings;
use mooring_actors::handoff::{ClientRecord, PoolRecord, ShardRecord};
use mooring_proto::Incarnation;

use super::ReadError;
use super::bytes::Cursor;
use super::format::{
    FORMAT, MANIFEST_MAGIC, PREAMBLE_BYTES, REQUIRED_TAG, check_preamble, format_of, preamble,
};

/// The manifest of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// When it was made, by the wall clock, in milliseconds since 1970.
    pub(crate) created_wall_ms: u64,
    /// The master that made it.
    pub(crate) incarnation: Incarnation,
    /// The seed of the hash that spreads keys over shards; the next master goes on with it.
    pub(crate) route_seed: u64,
    /// The version of the binary that made it.
    pub(crate) version: String,
    /// The times that it worked with.
    pub(crate) times: Times,
    /// Segments and remnants.
    pub(crate) pool: PoolRecord,
    /// Clients that were not offline.
    pub(crate) clients: Vec<ClientRecord>,
    /// The file of each shard; its place is its index.
    pub(crate) shards: Vec<ShardFile>,
}

/// The times that the two sides of a handoff are assumed to share, so that a difference can be told.
/// None is dangerous: what is left of a time is handed over, not when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long a get protects an object.
    pub(crate) lease_ttl_ms: u64,
    /// After which silence a client is suspected.
    pub(crate) client_ttl_ms: u64,
    /// After which time an unfinished put may be taken over.
    pub(crate) put_discard_timeout_ms: u64,
    /// For how long the ranges of a put may be written to.
    pub(crate) put_release_timeout_ms: u64,
}

impl From<&Settings> for Times {
    fn from(settings: &Settings) -> Times {
        Times {
            lease_ttl_ms: settings.lease_ttl_ms,
            client_ttl_ms: settings.client_ttl_ms,
            put_discard_timeout_ms: settings.put_discard_timeout_ms,
            put_release_timeout_ms: settings.put_release_timeout_ms,
        }
    }
}

/// The file of one shard, as it was when it was finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardFile {
    /// Its place among the files.
    pub(crate) index: u32,
    /// Its length.
    pub(crate) length_bytes: u64,
    /// The CRC-32C of the whole file.
    pub(crate) checksum: u32,
    /// What the shard said besides its ranges.
    pub(crate) record: ShardRecord,
    /// Records in it: objects, further replicas and holds.
    pub(crate) ranges: u64,
    /// Bytes of all its keys.
    pub(crate) key_bytes: u64,
}

impl ShardFile {
    /// The name of the file with this index.
    pub(crate) fn name_of(index: u32) -> String {
        format!("shard-{index:04}")
    }
}

/// Sums over the files of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Objects.
    pub(crate) objects: u64,
    /// Replicas of objects beyond the first.
    pub(crate) replicas: u64,
    /// Held ranges.
    pub(crate) holds: u64,
    /// Bytes of all keys.
    pub(crate) key_bytes: u64,
    /// Bytes of the files of shards.
    pub(crate) file_bytes: u64,
}

impl Totals {
    /// The sums of these files.
    pub(crate) fn of(files: &[ShardFile]) -> Totals {
        let mut totals = Totals::default();
        for file in files {
            let (objects, holds) = (file.record.objects, file.record.holds);
            let replicas = file.ranges.saturating_sub(objects).saturating_sub(holds);
            totals.objects = totals.objects.saturating_add(objects);
            totals.replicas = totals.replicas.saturating_add(replicas);
            totals.holds = totals.holds.saturating_add(holds);
            totals.key_bytes = totals.key_bytes.saturating_add(file.key_bytes);
            totals.file_bytes = totals.file_bytes.saturating_add(file.length_bytes);
        }
        totals
    }
}

impl Manifest {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = preamble(MANIFEST_MAGIC).to_vec();
        bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        for section in SECTIONS {
            let mut content = Vec::new();
            (section.put)(self, &mut content);
            if content.is_empty() && section.optional {
                continue;
            }
            put_section(&mut bytes, section.tag, &content);
        }
        seal(bytes)
    }

    /// Reads the bytes of the file.
    ///
    /// # Errors
    /// Corrupt if they are not what was written, else a format or section that is not understood.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, ReadError> {
        check_preamble(MANIFEST_NAME, bytes, MANIFEST_MAGIC)?;
        let sections = sealed(bytes)
            .ok_or_else(|| ReadError::corrupt(MANIFEST_NAME, "is not what was written"))?;
        let mut contents = [None; SECTIONS.len()];
        let mut cursor = Cursor::new(sections);
        while !cursor.is_empty() {
            let (tag, content) = section(&mut cursor).ok_or_else(|| {
                ReadError::corrupt(MANIFEST_NAME, "has a section that is not whole")
            })?;
            match SECTIONS.iter().position(|section| section.tag == tag) {
                Some(known) if contents[known].is_none() => contents[known] = Some(content),
                Some(_) => {
                    let fault = format_args!("has the section {tag:04x} twice");
                    return Err(ReadError::corrupt(MANIFEST_NAME, fault));
                }
                None if tag & REQUIRED_TAG == 0 => {}
                None => {
                    let what = format_args!("the section {tag:04x}");
                    return Err(ReadError::not_understood(MANIFEST_NAME, what));
                }
            }
        }
        let mut manifest = Manifest::empty();
        for (section, content) in SECTIONS.iter().zip(contents) {
            if content.is_none() && section.optional {
                continue;
            }
            let mut cursor = Cursor::new(content.unwrap_or_default());
            let taken = content.and_then(|_| (section.take)(&mut manifest, &mut cursor));
            if taken.is_none() || !cursor.is_empty() {
                let fault = format_args!("has no sound section {:04x}", section.tag);
                return Err(ReadError::corrupt(MANIFEST_NAME, fault));
            }
        }
        Ok(manifest)
    }

    /// The sums over all files.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(&self.shards)
    }

    /// The format that the bytes of a manifest tell, if they are such.
    pub(crate) fn format_of(bytes: &[u8]) -> Option<u32> {
        format_of(bytes, MANIFEST_MAGIC)
    }

    /// One with nothing in it.
    pub(super) fn empty() -> Manifest {
        Manifest {
            created_wall_ms: 0,
            incarnation: Incarnation(0),
            route_seed: 0,
            version: String::new(),
            times: Times::default(),
            pool: PoolRecord::default(),
            clients: Vec::new(),
            shards: Vec::new(),
        }
    }
}

/// One section: its tag, and how it is written and read.
pub(super) struct Section {
    tag: u16,
    pub(super) put: fn(&Manifest, &mut Vec<u8>),
    pub(super) take: fn(&mut Manifest, &mut Cursor<'_>) -> Option<()>,
    /// It is left out when it would be empty.
    optional: bool,
}

impl Section {
    const fn always(
        number: u16,
        put: fn(&Manifest, &mut Vec<u8>),
        take: fn(&mut Manifest, &mut Cursor<'_>) -> Option<()>,
    ) -> Section {
        Section { tag: REQUIRED_TAG | number, put, take, optional: false }
    }
}

/// Every section of format 1, in the order in which they are written.
pub(super) const SECTIONS: [Section; 8] = [
    Section::always(1, codec::put_origin, codec::take_origin),
    Section::always(2, codec::put_times, codec::take_times),
    Section::always(3, codec::put_segments, codec::take_segments),
    Section::always(4, codec::put_remnants, codec::take_remnants),
    Section::always(5, codec::put_table, codec::take_table),
    Section::always(6, codec::put_clients, codec::take_clients),
    Section::always(7, codec::put_shards, codec::take_shards),
    Section {
        optional: true,
        // Behind the segments, whose rows it completes.
        ..Section::always(8, codec::put_engines, codec::take_engines)
    },
];

/// Appends a section.
pub(super) fn put_section(bytes: &mut Vec<u8>, tag: u16, content: &[u8]) {
    bytes.extend_from_slice(&tag.to_le_bytes());
    // A longer one would be beyond the bound of the whole file, which its writer checks.
    bytes.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(content);
}

fn section<'a>(cursor: &mut Cursor<'a>) -> Option<(u16, &'a [u8])> {
    let (tag, length) = (cursor.u16()?, cursor.u32()?);
    Some((tag, cursor.take(usize::try_from(length).ok()?)?))
}

/// Fills in the length, and appends the checksum.
pub(super) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() + CHECKSUM_BYTES) as u64;
    bytes[PREAMBLE_BYTES..PREAMBLE_BYTES + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The sections, if length and checksum are right.
fn sealed(bytes: &[u8]) -> Option<&[u8]> {
    let (checked, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    let length = Cursor::at(checked, PREAMBLE_BYTES).u64()?;
    let whole = length == bytes.len() as u64
        && u32::from_le_bytes(checksum.try_into().ok()?) == crc32c::crc32c(checked);
    checked.get(PREAMBLE_BYTES + LENGTH_BYTES..).filter(|_| whole)
}

/// The name of the file.
pub(super) const MANIFEST_NAME: &str = "manifest";

/// The length of the file, which stands behind the preamble.
pub(super) const LENGTH_BYTES: usize = 8;

/// The checksum, which is the end of the file.
pub(super) const CHECKSUM_BYTES: usize = 4;

const _: () = assert!(FORMAT == 1, "the sections above are those of format 1");
