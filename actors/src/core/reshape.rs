//! Restoring with another number of shards than before.
//!
//! Objects go to the shards that their keys name now. Pages go to the home of the first range that
//! touches them, and a range that begins in such a page lies in that shard's span even if its object
//! is at home elsewhere: then it is foreign here and alien there. As objects come and go, such
//! ranges die out.

use std::collections::HashMap;

use super::{CoreConfig, CoreState};
use crate::handoff::{
    ClientRecord, ObjectRecord, PoolRecord, RangePlace, RangeRecord, RestoreError, RestoredSegment,
};
use crate::route::ShardId;
use crate::shard::restore::{RestoredObject, ShardRestore};

/// A restore of all shards together, from all files together.
#[derive(Debug)]
pub struct Reshape {
    config: CoreConfig,
    segments: Vec<RestoredSegment>,
    shards: Vec<ShardRestore>,
    /// Objects of each file so far.
    ordinals: Vec<u64>,
    /// Objects of which further replicas are to come, by file and ordinal.
    several: HashMap<(usize, u64), Several>,
    /// The pages that have an owner end here.
    owned: Owned,
}

#[derive(Clone, Copy, Debug)]
struct Several {
    home: ShardId,
    object: RestoredObject,
    missing: u8,
}

/// The last run of pages that was given to a shard.
#[derive(Clone, Copy, Debug)]
struct Owned {
    segment: u32,
    end_bytes: u64,
    owner: ShardId,
}

impl Reshape {
    /// Begins with empty shards on the segments of the pool's record, from so many files with about
    /// so many objects.
    pub fn new(
        config: &CoreConfig,
        segments: &[RestoredSegment],
        files: usize,
        objects: u64,
    ) -> Reshape {
        let count = config.route.shards();
        let fair = objects / u64::from(count);
        let shard = |number| config.restore_shard(ShardId(number), segments, fair);
        Reshape {
            config: config.clone(),
            segments: segments.to_vec(),
            shards: (0..count).map(shard).collect(),
            ordinals: vec![0; files],
            several: HashMap::new(),
            owned: Owned { segment: 0, end_bytes: 0, owner: ShardId(0) },
        }
    }

    /// Lays one range down. The ranges of all files come merged, in order of segment and offset.
    ///
    /// # Errors
    /// When it overlaps, is out of order or does not fit the others. Nothing may be used then.
    pub fn range(&mut self, file: usize, record: &RangeRecord<'_>) -> Result<(), RestoreError> {
        match record {
            RangeRecord::Object(object) => self.object(file, object),
            RangeRecord::Replica { place, ordinal } => self.replica(file, *place, *ordinal),
            RangeRecord::Hold { place, length_bytes, .. } => {
                // A hold is at home wherever its pages are.
                let home = ShardId(file as u16 % self.config.route.shards());
                let host = self.host(*place, *length_bytes, home)?;
                self.shard(host).range(record)
            }
        }
    }

    fn object(&mut self, file: usize, record: &ObjectRecord<'_>) -> Result<(), RestoreError> {
        let hash = self.config.route.hash(record.key);
        let home = self.config.route.shard(hash);
        let host = self.host(record.place, record.size_bytes, home)?;
        let segment = self.shard(home).segment(record.place)?;
        let object = if host == home {
            let range = self.shard(home).lay_used(segment, record.place, record.size_bytes)?;
            self.shard(home).object(range, record)?
        } else {
            let restore = self.shard(home);
            let alien = restore.make_alien(segment, record.place, record.size_bytes, host)?;
            let object = restore.object(alien, record)?;
            self.lay_foreign(record.place, host, home, alien, &object)?;
            object
        };
        let ordinal = self.ordinals[file];
        self.ordinals[file] += 1;
        if let Some(missing) = record.replicas.checked_sub(1).filter(|left| *left > 0) {
            self.several.insert((file, ordinal), Several { home, object, missing });
        }
        Ok(())
    }

    fn replica(
        &mut self,
        file: usize,
        place: RangePlace,
        ordinal: u64,
    ) -> Result<(), RestoreError> {
        let several = self.several.get_mut(&(file, ordinal)).filter(|object| object.missing > 0);
        let Some(several) = several else {
            let fault = format!("a replica of object {ordinal} of file {file}");
            return Err(RestoreError::Dangling(fault));
        };
        several.missing -= 1;
        let Several { home, object, .. } = *several;
        let host = self.host(place, object.size_bytes, home)?;
        let segment = self.shard(home).segment(place)?;
        if host == home {
            let range = self.shard(home).lay_used(segment, place, object.size_bytes)?;
            return self.shard(home).replica(range, &object);
        }
        let alien = self.shard(home).make_alien(segment, place, object.size_bytes, host)?;
        self.shard(home).replica(alien, &object)?;
        self.lay_foreign(place, host, home, alien, &object)
    }

    fn lay_foreign(
        &mut self,
        place: RangePlace,
        host: ShardId,
        home: ShardId,
        alien: crate::shard::restore::AlienRange,
        object: &RestoredObject,
    ) -> Result<(), RestoreError> {
        let segment = self.shard(host).segment(place)?;
        self.shard(host).lay_foreign(segment, place, home, alien, object)
    }

    /// The shard that owns the pages of a range: that of the page that it begins in, or its home if
    /// nobody owns that page yet.
    fn host(
        &mut self,
        place: RangePlace,
        length_bytes: u64,
        home: ShardId,
    ) -> Result<ShardId, RestoreError> {
        let segment = self.segments.get(place.segment as usize).ok_or_else(|| {
            RestoreError::Dangling(format!("a range on segment {}", place.segment))
        })?;
        let page_bytes = u64::from(segment.page_bytes);
        let end_bytes = place
            .offset_bytes
            .checked_add(length_bytes)
            .and_then(|end_bytes| end_bytes.checked_next_multiple_of(page_bytes))
            .ok_or_else(|| RestoreError::Overlap("a range beyond all memory".to_owned()))?;
        let shared =
            self.owned.segment == place.segment && place.offset_bytes < self.owned.end_bytes;
        let owner = if shared { self.owned.owner } else { home };
        let end_bytes = if shared { self.owned.end_bytes.max(end_bytes) } else { end_bytes };
        self.owned = Owned { segment: place.segment, end_bytes, owner };
        Ok(owner)
    }

    fn shard(&mut self, shard: ShardId) -> &mut ShardRestore {
        &mut self.shards[usize::from(shard.0)]
    }

    /// Ends the restore.
    ///
    /// # Errors
    /// When records are missing or do not fit each other. Nothing may be used then.
    pub fn finish(
        self,
        pool: &PoolRecord,
        clients: &[ClientRecord],
        objects: u64,
        sequence_floor: u64,
    ) -> Result<CoreState, RestoreError> {
        let restored: u64 = self.ordinals.iter().sum();
        if restored != objects {
            let fault = format!("{restored} objects instead of {objects}");
            return Err(RestoreError::Dangling(fault));
        }
        if self.several.values().any(|object| object.missing > 0) {
            return Err(RestoreError::Dangling("a replica is missing".to_owned()));
        }
        let mut shards = Vec::with_capacity(self.shards.len());
        for restore in self.shards {
            let objects = restore.objects();
            shards.push(restore.finish(objects, sequence_floor)?);
        }
        CoreState::restored(&self.config, pool, clients, shards)
    }
}
