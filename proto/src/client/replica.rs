//! Whole replicas: their pieces move side by side.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::task::{JoinError, JoinSet};

use super::error::{ClientError, Failure};
use super::retry::Deadline;
use super::segments::Place;
use super::shared::Shared;
use crate::error::ErrorCode;
use crate::identity::Incarnation;
use crate::message::data::MountedRange;
use crate::message::object::RangeDescriptor;
use crate::message::segment::SegmentEntry;

/// One replica of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replica {
    pub(super) incarnation: Incarnation,
    pub(super) range: RangeDescriptor,
    pub(super) size_bytes: usize,
}

/// The part of a replica that one request moves.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start_bytes: usize,
    length_bytes: usize,
}

impl Replica {
    fn place(&self) -> Place {
        Place::of(self.incarnation, &self.range)
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        let size_bytes = self.size_bytes;
        (0..size_bytes).step_by(PIECE_BYTES).map(move |start_bytes| Piece {
            start_bytes,
            length_bytes: PIECE_BYTES.min(size_bytes - start_bytes),
        })
    }

    /// A descriptor that does not fit its segment is a fault of the master, and is not followed.
    fn check(&self, entry: &SegmentEntry) -> Result<(), Failure> {
        let end_bytes = self.range.offset_bytes.checked_add(self.size_bytes as u64);
        if end_bytes.is_some_and(|end_bytes| end_bytes <= entry.segment.size_bytes) {
            return Ok(());
        }
        let text = format!("{} bytes at {:?} are outside of it", self.size_bytes, self.range);
        Err(Failure::known(ClientError::Protocol(text)))
    }

    fn mounted(&self, entry: &SegmentEntry, piece: Piece) -> Result<MountedRange, Failure> {
        let length_bytes = u32::try_from(piece.length_bytes);
        Ok(MountedRange {
            segment: entry.segment.segment,
            generation: self.range.generation,
            incarnation: self.incarnation,
            // Checked to lie inside of the segment.
            offset_bytes: self.range.offset_bytes + piece.start_bytes as u64,
            length_bytes: length_bytes.map_err(|_| {
                Failure::known(ClientError::Protocol("a piece above 4 GiB".to_owned()))
            })?,
        })
    }
}

impl Shared {
    /// Reads a replica. Its checksums are those of the way: what the store holds now.
    pub(super) async fn read_replica(self: &Arc<Self>, replica: Replica) -> Result<Bytes, Failure> {
        let mut entry = self.entry(replica).await?;
        let mut attempts = 1;
        loop {
            let failure = match self.read_pieces(&entry, replica).await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => failure,
            };
            entry = self.entry_after(failure, replica, &mut attempts).await?;
        }
    }

    /// Writes a replica; no write is begun after `begin_by`. When this succeeds, none is under way any
    /// more.
    pub(super) async fn write_replica(
        self: &Arc<Self>,
        replica: Replica,
        bytes: &Bytes,
        begin_by: Deadline,
    ) -> Result<(), Failure> {
        let mut entry = self.entry(replica).await?;
        let mut attempts = 1;
        loop {
            let failure = match self.write_pieces(&entry, replica, bytes, begin_by).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            // Another attempt would say nothing about the write that may still arrive.
            if failure.maybe_done {
                return Err(failure);
            }
            entry = self.entry_after(failure, replica, &mut attempts).await?;
        }
    }

    async fn entry(&self, replica: Replica) -> Result<Arc<SegmentEntry>, Failure> {
        let entry = self.segment(replica.place()).await.map_err(Failure::known)?;
        replica.check(&entry)?;
        Ok(entry)
    }

    /// The segment for another attempt after this failure, if one makes sense: a store can hear of
    /// a new mount later than those who use it.
    async fn entry_after(
        &self,
        failure: Failure,
        replica: Replica,
        attempts: &mut u32,
    ) -> Result<Arc<SegmentEntry>, Failure> {
        if failure.error.code() != Some(ErrorCode::WrongMount) || *attempts == MOUNT_ATTEMPTS {
            return Err(failure);
        }
        let found = self.segment_after_refresh(replica.place()).await;
        // If the segment is gone, then the store was right.
        let Ok(entry) = found else { return Err(failure) };
        replica.check(&entry)?;
        tokio::time::sleep(MOUNT_PAUSE * *attempts).await;
        *attempts += 1;
        Ok(entry)
    }

    async fn read_pieces(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
        replica: Replica,
    ) -> Result<Bytes, Failure> {
        // Fresh zeroes come from the kernel, so a large buffer is not written twice.
        let mut rest = BytesMut::zeroed(replica.size_bytes);
        if replica.size_bytes <= PIECE_BYTES {
            let piece = Piece { start_bytes: 0, length_bytes: replica.size_bytes };
            let range = replica.mounted(entry, piece)?;
            self.stores.read(&entry.segment, range, &mut rest).await?;
            return Ok(rest.freeze());
        }
        let mut done: Vec<Option<BytesMut>> = Vec::new();
        let mut running = JoinSet::new();
        for piece in replica.pieces() {
            if running.len() == PIECES_PER_REPLICA {
                collect(running.join_next().await, &mut done)?;
            }
            let mut buffer = rest.split_to(piece.length_bytes);
            let range = replica.mounted(entry, piece)?;
            let (index, shared, entry) = (done.len(), self.clone(), entry.clone());
            done.push(None);
            running.spawn(async move {
                let outcome = shared.stores.read(&entry.segment, range, &mut buffer).await;
                outcome.map(|()| (index, buffer))
            });
        }
        while !running.is_empty() {
            collect(running.join_next().await, &mut done)?;
        }
        // The pieces are neighbours in one allocation, so this copies nothing.
        let mut whole = BytesMut::new();
        for piece in done.into_iter().flatten() {
            whole.unsplit(piece);
        }
        Ok(whole.freeze())
    }

    async fn write_pieces(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
        replica: Replica,
        bytes: &Bytes,
        begin_by: Deadline,
    ) -> Result<(), Failure> {
        if replica.size_bytes <= PIECE_BYTES {
            let piece = Piece { start_bytes: 0, length_bytes: replica.size_bytes };
            let range = replica.mounted(entry, piece)?;
            return self.stores.write(&entry.segment, range, bytes.clone(), begin_by).await;
        }
        let mut failed: Option<Failure> = None;
        let mut running = JoinSet::new();
        for piece in replica.pieces() {
            if running.len() == PIECES_PER_REPLICA {
                note(running.join_next().await, &mut failed);
            }
            if failed.is_some() {
                break;
            }
            let range = replica.mounted(entry, piece)?;
            let part = bytes.slice(piece.start_bytes..piece.start_bytes + piece.length_bytes);
            let (shared, entry) = (self.clone(), entry.clone());
            running.spawn(async move {
                shared.stores.write(&entry.segment, range, part, begin_by).await
            });
        }
        // Those under way are waited for even after a failure: only then is it known whether a
        // write may still arrive.
        while !running.is_empty() {
            note(running.join_next().await, &mut failed);
        }
        failed.map_or(Ok(()), Err)
    }
}

type Read = Result<(usize, BytesMut), Failure>;

fn collect(
    joined: Option<Result<Read, JoinError>>,
    done: &mut [Option<BytesMut>],
) -> Result<(), Failure> {
    let (index, buffer) = match joined {
        None => return Ok(()),
        Some(outcome) => outcome.map_err(stopped)??,
    };
    if let Some(place) = done.get_mut(index) {
        *place = Some(buffer);
    }
    Ok(())
}

/// Keeps the first failure, and that any of them left a write in doubt.
pub(super) fn note(
    joined: Option<Result<Result<(), Failure>, JoinError>>,
    failed: &mut Option<Failure>,
) {
    let Some(outcome) = joined else { return };
    let Err(failure) = outcome.map_err(stopped).and_then(|outcome| outcome) else { return };
    match failed {
        None => *failed = Some(failure),
        Some(first) => first.maybe_done |= failure.maybe_done,
    }
}

/// A task of the client ends early only when its runtime goes down.
fn stopped(_: JoinError) -> Failure {
    Failure::unknown(ClientError::Ended)
}

/// Half of what a range may have: large enough that the cost of a request vanishes, small enough
/// that several share a connection fairly.
const PIECE_BYTES: usize = 4 << 20;

/// Side by side for one replica.
const PIECES_PER_REPLICA: usize = 8;

/// How often a range is tried whose mount the store does not know.
const MOUNT_ATTEMPTS: u32 = 5;

/// The master's answer to a mount takes less to reach the store; later pauses are longer.
const MOUNT_PAUSE: Duration = Duration::from_millis(10);
