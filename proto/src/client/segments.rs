//! The segment table: from the slots of descriptors to the endpoints of stores.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;

use super::Client;
use super::error::ClientError;
use super::shared::Shared;
use crate::error::{ErrorCode, WireError};
use crate::identity::Incarnation;
use crate::message::object::RangeDescriptor;
use crate::message::segment::{SegmentEntry, SegmentTableRequest};

impl Client {
    /// The segment that a descriptor of this incarnation's master points into, from the table that
    /// the client keeps; the table is refreshed when it does not have it.
    ///
    /// # Errors
    /// `SegmentNotFound` if the segment is gone or another master answers by now, or what the
    /// refresh failed with.
    pub async fn segment(
        &self,
        incarnation: Incarnation,
        slot: u32,
        generation: u32,
    ) -> Result<Arc<SegmentEntry>, ClientError> {
        self.shared().segment(Place { incarnation, slot, generation }).await
    }
}

/// A segment as a descriptor names it, together with the master that said so: slots of another
/// master mean other segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) incarnation: Incarnation,
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Place {
    pub(super) fn of(incarnation: Incarnation, range: &RangeDescriptor) -> Place {
        Place { incarnation, slot: range.slot, generation: range.generation }
    }
}

/// The last table that was fetched.
#[derive(Debug, Default)]
pub(super) struct SegmentCache {
    table: RwLock<Arc<Table>>,
    refreshing: Mutex<()>,
    /// Refreshes that have begun.
    begun: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    /// The master and the epoch; `None` before the first refresh.
    version: Option<(Incarnation, u64)>,
    rows: HashMap<u32, Arc<SegmentEntry>>,
    /// The number of the refresh that confirmed it.
    refresh: u64,
}

impl Table {
    fn find(&self, place: Place) -> Option<Arc<SegmentEntry>> {
        let (incarnation, _) = self.version?;
        let row = self.rows.get(&place.slot)?;
        let same = incarnation == place.incarnation && row.generation == place.generation;
        same.then(|| row.clone())
    }
}

impl SegmentCache {
    /// All segments of the table, which may be an old one or empty.
    pub(super) fn rows(&self) -> Vec<Arc<SegmentEntry>> {
        self.current().rows.values().cloned().collect()
    }

    fn current(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, table: Table) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }
}

impl Shared {
    pub(super) async fn segment(&self, place: Place) -> Result<Arc<SegmentEntry>, ClientError> {
        if let Some(row) = self.segments.current().find(place) {
            return Ok(row);
        }
        self.segment_after_refresh(place).await
    }

    /// As [`Shared::segment`], but from a table that the master has confirmed after this call.
    pub(super) async fn segment_after_refresh(
        &self,
        place: Place,
    ) -> Result<Arc<SegmentEntry>, ClientError> {
        // Many callers miss the same row at once: a refresh that begins from now on serves all.
        let begun_before = self.segments.begun.load(Ordering::SeqCst);
        let refreshing = self.segments.refreshing.lock().await;
        if self.segments.current().refresh <= begun_before {
            self.refresh_segments().await?;
        }
        drop(refreshing);
        self.segments.current().find(place).ok_or_else(|| {
            let text = format!("slot {} generation {}", place.slot, place.generation);
            ClientError::Refused(WireError::new(ErrorCode::SegmentNotFound, text))
        })
    }

    async fn refresh_segments(&self) -> Result<(), ClientError> {
        let refresh = self.segments.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let held = self.segments.current();
        let reply = self.call(&SegmentTableRequest { known: held.version }).await?.reply;
        let version = Some((reply.incarnation, reply.epoch));
        let rows = match reply.segments {
            Some(rows) => rows.into_iter().map(|row| (row.slot, Arc::new(row))).collect(),
            None if held.version == version => held.rows.clone(),
            None => {
                let text = "the segment table was left out although it has changed".to_owned();
                return Err(ClientError::Protocol(text));
            }
        };
        self.stores.keep_only(rows.values().map(|row| &row.segment));
        self.segments.replace(Table { version, rows, refresh });
        Ok(())
    }
}
