//! The segments that this client has mounted, and the grants under which they are.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use quinn::Connection;
use tokio::sync::{Mutex, Notify, watch};

use super::Client;
use super::error::{ClientError, RetryHint};
use super::exchange::{Priority, exchange};
use super::retry::{Backoff, Deadline};
use super::shared::Shared;
use crate::error::{ErrorCode, WireError};
use crate::identity::{Incarnation, SegmentId, SegmentsDigest};
use crate::limits::REMOUNT_SEGMENTS_MAX;
use crate::message::segment::{
    MountGrant, MountRequest, RemountReply, RemountRequest, Segment, UnmountReply, UnmountRequest,
};

/// The current grant of each mounted segment.
pub type Mounts = HashMap<SegmentId, MountGrant>;

impl Client {
    /// Mounts a segment, and keeps it mounted: it is mounted again with every master that asks for
    /// it, until [`Client::unmount`].
    ///
    /// `mounted_with` is the master that this memory was mounted with before, if any, and if it
    /// may still hold objects of that time. Repeating a mount with the same identity is a success.
    /// If the call is dropped or fails without a refusal, the segment may or may not be mounted;
    /// unmount it to be sure.
    ///
    /// # Errors
    /// What the master refuses the segment with, or [`ClientError::Timeout`].
    pub async fn mount(
        &self,
        segment: Segment,
        mounted_with: Option<Incarnation>,
    ) -> Result<MountGrant, ClientError> {
        self.shared().mount(MountRequest { segment, mounted_with }).await
    }

    /// Unmounts a segment. With a grace nothing new is placed there from now on and what is there
    /// stays readable that long; the answer comes at once, and says what is left of the grace.
    /// Ask again with a grace of zero to end it early; the answer is then zero.
    ///
    /// The grant stays in [`Client::mounts`] until the segment is gone, so that a store serves
    /// readers meanwhile. A master that comes within the grace is told of the segment and of what is
    /// left; after it the segment is not mounted again.
    ///
    /// # Errors
    /// `SegmentNotFound` if this client has not mounted it either, `NotOwner`, or
    /// [`ClientError::Timeout`].
    pub async fn unmount(
        &self,
        segment: SegmentId,
        grace_ms: u64,
    ) -> Result<UnmountReply, ClientError> {
        self.shared().unmount(&UnmountRequest { segment, grace_ms }).await
    }

    /// The current grants, and each change of them. A store serves the ranges of these grants and
    /// of no other ones.
    pub fn mounts(&self) -> watch::Receiver<Mounts> {
        self.shared().mounts.grants.subscribe()
    }
}

/// What is mounted. One mount, remount or unmount at a time, so that a remount names exactly the
/// segments that are mounted.
#[derive(Debug, Default)]
pub(super) struct MountBook {
    entries: Mutex<Entries>,
    grants: watch::Sender<Mounts>,
    /// Those that are on their way out, with the end of their grace.
    leaving: std::sync::Mutex<HashMap<SegmentId, Deadline>>,
    /// Those that a transfer engine reaches.
    by_engine: std::sync::Mutex<HashSet<SegmentId>>,
    remount_now: Notify,
}

type Entries = HashMap<SegmentId, Entry>;

#[derive(Debug)]
struct Entry {
    segment: Segment,
    /// The master that granted the mount.
    mounted_with: Incarnation,
}

impl MountBook {
    /// How many segments are believed to be mounted, which are those that a remount would name, and
    /// the digest of those of them that are kept.
    pub(super) fn summary(&self) -> (u32, SegmentsDigest) {
        let grants = self.grants.borrow();
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let by_engine = self.by_engine.lock().unwrap_or_else(PoisonError::into_inner);
        let has_left = |id: &SegmentId| leaving.get(id).copied().is_some_and(Deadline::has_passed);
        let is_kept = |id: &SegmentId| !leaving.contains_key(id) && !by_engine.contains(id);
        let count = grants.keys().filter(|id| !has_left(id)).count();
        let kept = grants.keys().filter(|id| is_kept(id));
        (u32::try_from(count).unwrap_or(u32::MAX), kept.copied().collect())
    }

    /// The segment goes after so much time, or sooner if that was said before.
    fn begin_leaving(&self, segment: SegmentId, grace_ms: u64) {
        let until = Deadline::after_ms(grace_ms);
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.entry(segment).and_modify(|known| *known = known.or_sooner(until)).or_insert(until);
    }

    /// When the segment goes, if it does.
    fn leaves_by(&self, segment: SegmentId) -> Option<Deadline> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).get(&segment).copied()
    }

    fn has_left(&self, segment: SegmentId) -> bool {
        self.leaves_by(segment).is_some_and(Deadline::has_passed)
    }

    fn forget_leaving(&self, segment: SegmentId) {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }

    /// Asks for a remount of everything.
    pub(super) fn remount_now(&self) {
        self.remount_now.notify_one();
    }

    /// Whether a segment was granted by another master than this one.
    pub(super) fn is_foreign_to(&self, incarnation: Incarnation) -> bool {
        self.grants.borrow().values().any(|grant| grant.incarnation != incarnation)
    }

    fn insert(&self, entries: &mut Entries, segment: Segment, grant: MountGrant) {
        let id = segment.segment;
        if segment.transfer_engine.is_some() {
            self.by_engine.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
        entries.insert(id, Entry { segment, mounted_with: grant.incarnation });
        self.forget_leaving(id);
        self.grants.send_modify(|grants| {
            grants.insert(id, grant);
        });
    }

    fn remove(&self, entries: &mut Entries, segment: SegmentId) {
        entries.remove(&segment);
        self.grants.send_if_modified(|grants| grants.remove(&segment).is_some());
        self.forget_leaving(segment);
        self.by_engine.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }
}

impl Shared {
    async fn mount(&self, mut request: MountRequest) -> Result<MountGrant, ClientError> {
        let id = request.segment.segment;
        let deadline = self.deadline();
        let mut backoff = Backoff::default();
        loop {
            let error = {
                let mut entries = self.mounts.entries.lock().await;
                check_room(&entries, id)?;
                if let Some(entry) = entries.get(&id) {
                    request.mounted_with = Some(entry.mounted_with);
                }
                match self.call_once(&request, deadline, None).await {
                    Ok((grant, _)) => {
                        self.mounts.insert(&mut entries, request.segment, grant);
                        return Ok(grant);
                    }
                    Err(failure) => failure.error,
                }
            };
            self.pause_before_retry(error, deadline, &mut backoff).await?;
        }
    }

    async fn unmount(&self, request: &UnmountRequest) -> Result<UnmountReply, ClientError> {
        let deadline = self.deadline();
        let mut backoff = Backoff::default();
        let mut known = false;
        loop {
            let error = {
                let mut entries = self.mounts.entries.lock().await;
                if entries.contains_key(&request.segment) {
                    known = true;
                    self.mounts.begin_leaving(request.segment, request.grace_ms);
                }
                let outcome = self.call_once(request, deadline, None).await.map(|(reply, _)| reply);
                match outcome.map_err(|failure| failure.error) {
                    Ok(reply) => {
                        if reply.grace_left_ms == 0 {
                            self.mounts.remove(&mut entries, request.segment);
                        } else if known {
                            self.mounts.begin_leaving(request.segment, reply.grace_left_ms);
                        }
                        return Ok(reply);
                    }
                    // The grace has passed, or the answer to an earlier attempt was lost.
                    Err(error) if known && error.code() == Some(ErrorCode::SegmentNotFound) => {
                        self.mounts.remove(&mut entries, request.segment);
                        return Ok(UnmountReply { grace_left_ms: 0 });
                    }
                    Err(error) => error,
                }
            };
            self.pause_before_retry(error, deadline, &mut backoff).await?;
        }
    }

    /// Sleeps before another attempt, or returns the error if there is to be none.
    async fn pause_before_retry(
        &self,
        error: ClientError,
        deadline: Deadline,
        backoff: &mut Backoff,
    ) -> Result<(), ClientError> {
        let hint = if error.code() == Some(ErrorCode::NeedRemount) {
            self.mounts.remount_now();
            Some(RetryHint { after_ms: None })
        } else {
            error.retry()
        };
        match hint {
            Some(hint) if deadline.sleep(backoff.pause(hint)).await => Ok(()),
            _ => Err(error),
        }
    }

    /// Mounts everything again whenever that is asked for.
    pub(super) async fn keep_mounted(&self) {
        loop {
            self.mounts.remount_now.notified().await;
            let mut backoff = Backoff::default();
            while let Err(error) = self.remount().await {
                tracing::warn!(%error, "the segments could not be mounted again");
                let hint = error.retry().unwrap_or(RetryHint { after_ms: None });
                tokio::time::sleep(backoff.pause(hint)).await;
            }
        }
    }

    async fn remount(&self) -> Result<(), ClientError> {
        let session = self.link.next_session().await?;
        let mut entries = self.mounts.entries.lock().await;
        let segments: Vec<MountRequest> = entries
            .values()
            .filter(|entry| !self.mounts.has_left(entry.segment.segment))
            .map(|entry| MountRequest {
                segment: entry.segment.clone(),
                mounted_with: Some(entry.mounted_with),
            })
            .collect();
        let request = RemountRequest { segments };
        let connection = &session.dialed.connection;
        let reply: RemountReply =
            exchange(connection, &request, self.deadline(), Priority::Control, None)
                .await
                .map_err(|failure| failure.error)?;
        if reply.grants.len() != request.segments.len() {
            let text = "a remount was answered with another number of grants".to_owned();
            return Err(ClientError::Protocol(text));
        }
        tracing::info!(segments = reply.grants.len(), "mounted the segments again");
        let granted = request.segments.iter().map(|mount| mount.segment.segment).zip(reply.grants);
        let granted: Vec<(SegmentId, MountGrant)> = granted.collect();
        for (segment, grant) in &granted {
            if let Some(entry) = entries.get_mut(segment) {
                entry.mounted_with = grant.incarnation;
            }
        }
        // One change for all, so that no store sees a mixture.
        self.mounts.grants.send_modify(|grants| grants.extend(granted));
        self.leave_again(connection, &request).await
    }

    /// Tells a master that has mounted segments again which of them are on their way out. One that
    /// took over from the master that knew it knows it too; one that began empty does not.
    async fn leave_again(
        &self,
        connection: &Connection,
        mounted: &RemountRequest,
    ) -> Result<(), ClientError> {
        for mount in &mounted.segments {
            let segment = mount.segment.segment;
            let Some(until) = self.mounts.leaves_by(segment) else { continue };
            let grace_ms = u64::try_from(until.left().as_millis()).unwrap_or(u64::MAX);
            let request = UnmountRequest { segment, grace_ms };
            let told = exchange(connection, &request, self.deadline(), Priority::Control, None);
            match told.await.map_err(|failure| failure.error) {
                // The grace has passed meanwhile.
                Err(error) if error.code() == Some(ErrorCode::SegmentNotFound) => {}
                told => {
                    told?;
                }
            }
        }
        Ok(())
    }
}

fn check_room(entries: &Entries, segment: SegmentId) -> Result<(), ClientError> {
    if entries.len() < REMOUNT_SEGMENTS_MAX || entries.contains_key(&segment) {
        return Ok(());
    }
    let text = format!("{REMOUNT_SEGMENTS_MAX} segments are mounted, which is the limit");
    Err(ClientError::Refused(WireError::new(ErrorCode::TooLarge, text)))
}
