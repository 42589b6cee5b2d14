//! The content of each section.

use mooring_actors::handoff::{ClientRecord, RemnantRecord, SegmentRecord, ShardRecord};
use mooring_proto::message::segment::{Segment, TransferEngine};
use mooring_proto::{ClientId, Incarnation, SegmentId};

use super::{Manifest, ShardFile, Times};
use crate::handoff::bytes::{Cursor, put_list, put_optional, put_text, put_varint};

pub(super) fn put_origin(manifest: &Manifest, bytes: &mut Vec<u8>) {
    put_varint(bytes, manifest.created_wall_ms);
    bytes.extend_from_slice(&manifest.incarnation.0.to_le_bytes());
    bytes.extend_from_slice(&manifest.route_seed.to_le_bytes());
    put_text(bytes, &manifest.version);
}

pub(super) fn take_origin(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    manifest.created_wall_ms = cursor.varint()?;
    manifest.incarnation = Incarnation(cursor.u64()?);
    manifest.route_seed = cursor.u64()?;
    manifest.version = cursor.text()?;
    Some(())
}

pub(super) fn put_times(manifest: &Manifest, bytes: &mut Vec<u8>) {
    let times = manifest.times;
    put_varint(bytes, times.lease_ttl_ms);
    put_varint(bytes, times.client_ttl_ms);
    put_varint(bytes, times.put_discard_timeout_ms);
    put_varint(bytes, times.put_release_timeout_ms);
}

pub(super) fn take_times(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    manifest.times = Times {
        lease_ttl_ms: cursor.varint()?,
        client_ttl_ms: cursor.varint()?,
        put_discard_timeout_ms: cursor.varint()?,
        put_release_timeout_ms: cursor.varint()?,
    };
    Some(())
}

pub(super) fn put_segments(manifest: &Manifest, bytes: &mut Vec<u8>) {
    put_list(bytes, &manifest.pool.segments, |bytes, record| {
        bytes.extend_from_slice(&record.client.0.to_le_bytes());
        bytes.extend_from_slice(&record.segment.segment.0.to_le_bytes());
        put_varint(bytes, record.segment.base);
        put_varint(bytes, record.segment.size_bytes);
        put_text(bytes, &record.segment.endpoint);
        put_optional(bytes, record.segment.certificate_sha256, |bytes, hash| {
            bytes.extend_from_slice(&hash);
        });
        put_varint(bytes, u64::from(record.slot));
        put_varint(bytes, u64::from(record.generation));
        bytes.extend_from_slice(&record.mounted_with.0.to_le_bytes());
        put_optional(bytes, record.drain_left_ms, put_varint);
        put_optional(bytes, record.quarantine_left_ms, put_varint);
    });
}

pub(super) fn take_segments(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    manifest.pool.segments = cursor.list(|cursor| {
        Some(SegmentRecord {
            client: ClientId(cursor.u128()?),
            segment: Segment {
                segment: SegmentId(cursor.u128()?),
                base: cursor.varint()?,
                size_bytes: cursor.varint()?,
                endpoint: cursor.text()?,
                certificate_sha256: cursor.optional(Cursor::array)?,
                transfer_engine: None,
            },
            slot: u16::try_from(cursor.varint()?).ok()?,
            generation: cursor.varint_u32()?,
            mounted_with: Incarnation(cursor.u64()?),
            drain_left_ms: cursor.optional(Cursor::varint)?,
            quarantine_left_ms: cursor.optional(Cursor::varint)?,
        })
    })?;
    Some(())
}

/// Empty when no segment is reached by a transfer engine.
pub(super) fn put_engines(manifest: &Manifest, bytes: &mut Vec<u8>) {
    let segments = manifest.pool.segments.iter().enumerate();
    let engines: Vec<(usize, &TransferEngine)> = segments
        .filter_map(|(index, record)| Some((index, record.segment.transfer_engine.as_ref()?)))
        .collect();
    if engines.is_empty() {
        return;
    }
    put_list(bytes, &engines, |bytes, (index, engine)| {
        put_varint(bytes, *index as u64);
        put_text(bytes, &engine.name);
        put_text(bytes, &engine.protocol);
        put_text(bytes, &engine.host);
    });
}

pub(super) fn take_engines(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    let engines = cursor.list(|cursor| {
        let index = usize::try_from(cursor.varint()?).ok()?;
        let (name, protocol, host) = (cursor.text()?, cursor.text()?, cursor.text()?);
        Some((index, TransferEngine { name, protocol, host }))
    })?;
    for (index, engine) in engines {
        let segment = &mut manifest.pool.segments.get_mut(index)?.segment;
        if segment.transfer_engine.replace(engine).is_some() {
            return None;
        }
    }
    Some(())
}

pub(super) fn put_remnants(manifest: &Manifest, bytes: &mut Vec<u8>) {
    put_list(bytes, &manifest.pool.remnants, |bytes, record| {
        put_text(bytes, &record.endpoint);
        put_varint(bytes, record.address);
        put_varint(bytes, record.length_bytes);
        put_varint(bytes, record.left_ms);
        bytes.push(u8::from(record.whole));
    });
}

pub(super) fn take_remnants(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    manifest.pool.remnants = cursor.list(|cursor| {
        Some(RemnantRecord {
            endpoint: cursor.text()?,
            address: cursor.varint()?,
            length_bytes: cursor.varint()?,
            left_ms: cursor.varint()?,
            whole: match cursor.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            },
        })
    })?;
    Some(())
}

pub(super) fn put_table(manifest: &Manifest, bytes: &mut Vec<u8>) {
    put_varint(bytes, u64::from(manifest.pool.generation_max));
    put_varint(bytes, manifest.pool.epoch);
}

pub(super) fn take_table(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    manifest.pool.generation_max = cursor.varint_u32()?;
    manifest.pool.epoch = cursor.varint()?;
    Some(())
}

pub(super) fn put_clients(manifest: &Manifest, bytes: &mut Vec<u8>) {
    put_list(bytes, &manifest.clients, |bytes, record| {
        bytes.extend_from_slice(&record.client.0.to_le_bytes());
        put_text(bytes, &record.name);
        put_varint(bytes, u64::from(record.segments));
    });
}

pub(super) fn take_clients(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    manifest.clients = cursor.list(|cursor| {
        Some(ClientRecord {
            client: ClientId(cursor.u128()?),
            name: cursor.text()?,
            segments: cursor.varint_u32()?,
        })
    })?;
    Some(())
}

pub(super) fn put_shards(manifest: &Manifest, bytes: &mut Vec<u8>) {
    put_list(bytes, &manifest.shards, |bytes, file| {
        put_varint(bytes, file.length_bytes);
        bytes.extend_from_slice(&file.checksum.to_le_bytes());
        put_varint(bytes, file.record.objects);
        put_varint(bytes, file.record.holds);
        put_varint(bytes, file.record.aliens);
        put_varint(bytes, file.record.next_sequence);
        put_varint(bytes, file.ranges);
        put_varint(bytes, file.key_bytes);
    });
}

pub(super) fn take_shards(manifest: &mut Manifest, cursor: &mut Cursor<'_>) -> Option<()> {
    let mut files = cursor.list(|cursor| {
        Some(ShardFile {
            index: 0,
            length_bytes: cursor.varint()?,
            checksum: cursor.u32()?,
            record: ShardRecord {
                objects: cursor.varint()?,
                holds: cursor.varint()?,
                aliens: cursor.varint()?,
                next_sequence: cursor.varint()?,
            },
            ranges: cursor.varint()?,
            key_bytes: cursor.varint()?,
        })
    })?;
    for (index, file) in files.iter_mut().enumerate() {
        file.index = u32::try_from(index).ok()?;
    }
    manifest.shards = files;
    Some(())
}
