//! The memory for requests under way: bounded for each peer and for all of them together.

use std::sync::Arc;

use mooring_proto::limits::RANGE_BYTES_MAX;
use mooring_proto::{ErrorCode, WireError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What all peers share.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// One permit for each KiB.
    all: Arc<Semaphore>,
    bytes: usize,
    /// Lets one write go on beyond the bound. Writes take room as their bytes come, so several may
    /// each have some and wait for the rest; the one that has this ends, and gives its room back.
    beyond: Arc<Semaphore>,
}

/// The part of the buffer that one peer may fill, so that a slow one does not fill it for all.
#[derive(Debug)]
pub(crate) struct PeerBuffer(Arc<Semaphore>);

/// Room for one range, in the peer's part of the buffer and in the whole.
#[derive(Debug)]
pub(crate) struct Room {
    _of_peer: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Room for a range that arrives: all of it in the peer's part, and in the whole only what has come.
#[derive(Debug)]
pub(crate) struct GrowingRoom {
    _of_peer: OwnedSemaphorePermit,
    of_all: Vec<OwnedSemaphorePermit>,
    is_beyond: bool,
    all: Arc<Semaphore>,
    beyond: Arc<Semaphore>,
}

impl Buffer {
    /// At most this many bytes, and at least one range of the largest size.
    pub(crate) fn new(bytes: usize) -> Buffer {
        let bytes = bytes.max(BYTES_MIN);
        Buffer { all: semaphore(bytes), bytes, beyond: Arc::new(Semaphore::new(1)) }
    }

    /// The part of a new peer: no more than a quarter of what all have, if that is enough for one
    /// range.
    pub(crate) fn part_of_peer(&self) -> PeerBuffer {
        let share = self.bytes / PEERS_MIN;
        PeerBuffer(semaphore(share.clamp(BYTES_MIN, PEER_BYTES_MAX)))
    }

    /// Waits for room for so many bytes, which are there at once; the peer's part first, so that it
    /// waits for itself alone as long as it can.
    pub(crate) async fn room(&self, peer: &PeerBuffer, bytes: usize) -> Result<Room, WireError> {
        let permits = permits(bytes);
        let _of_peer = acquire(&peer.0, permits).await?;
        let _of_all = acquire(&self.all, permits).await?;
        Ok(Room { _of_peer, _of_all })
    }

    /// Waits for the peer's part of the room for so many bytes that are announced and may not come.
    pub(crate) async fn growing_room(
        &self,
        peer: &PeerBuffer,
        bytes: usize,
    ) -> Result<GrowingRoom, WireError> {
        let _of_peer = acquire(&peer.0, permits(bytes)).await?;
        Ok(GrowingRoom {
            _of_peer,
            of_all: Vec::new(),
            is_beyond: false,
            all: Arc::clone(&self.all),
            beyond: Arc::clone(&self.beyond),
        })
    }

    /// What is free of the whole.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.all.available_permits() * BYTES_PER_PERMIT
    }
}

impl GrowingRoom {
    /// Waits for room for more of the range; gives how many bytes may be read into it, at most
    /// these and at least one of them.
    pub(crate) async fn grow(&mut self, missing_bytes: usize) -> Result<usize, WireError> {
        if self.is_beyond {
            return Ok(missing_bytes);
        }
        let step_bytes = missing_bytes.min(STEP_BYTES);
        tokio::select! {
            biased;
            permit = acquire(&self.all, permits(step_bytes)) => {
                self.of_all.push(permit?);
                Ok(step_bytes)
            }
            permit = acquire(&self.beyond, 1) => {
                self.of_all.push(permit?);
                self.is_beyond = true;
                Ok(missing_bytes)
            }
        }
    }
}

async fn acquire(part: &Arc<Semaphore>, permits: u32) -> Result<OwnedSemaphorePermit, WireError> {
    let acquired = Arc::clone(part).acquire_many_owned(permits).await;
    // Nobody closes the semaphores.
    acquired.map_err(|_| WireError::new(ErrorCode::Internal, "the buffer is closed"))
}

fn semaphore(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits(bytes) as usize))
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BYTES_PER_PERMIT)).unwrap_or(u32::MAX)
}

/// The finest step in which the buffer is counted: permits are 32 bits wide.
const BYTES_PER_PERMIT: usize = 1 << 10;

/// One range of the largest size must always fit, or its request would wait for ever.
const BYTES_MIN: usize = RANGE_BYTES_MAX;

/// Several of the largest ranges side by side, or hundreds of small ones.
const PEER_BYTES_MAX: usize = 64 << 20;

/// So many peers fill the whole together, or more.
const PEERS_MIN: usize = 4;

/// What a peer that announces bytes and sends none holds; large ranges still take few steps.
const STEP_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_range_that_arrives_takes_room_step_by_step_and_gives_it_back() {
        let buffer = Buffer::new(32 << 20);
        let peer = buffer.part_of_peer();
        let mut room = buffer.growing_room(&peer, 100 << 10).await.unwrap();
        assert_eq!(buffer.free_bytes(), 32 << 20);
        assert_eq!(room.grow(100 << 10).await.unwrap(), STEP_BYTES);
        assert_eq!(room.grow((100 << 10) - STEP_BYTES).await.unwrap(), (100 << 10) - STEP_BYTES);
        assert_eq!(buffer.free_bytes(), (32 << 20) - (100 << 10));
        drop(room);
        assert_eq!(buffer.free_bytes(), 32 << 20);
    }

    #[tokio::test]
    async fn ranges_that_all_have_a_part_of_their_room_end_one_after_the_other() {
        let buffer = Buffer::new(BYTES_MIN);
        let mut rooms = Vec::new();
        for _ in 0..2 {
            let peer = buffer.part_of_peer();
            let mut room = buffer.growing_room(&peer, BYTES_MIN).await.unwrap();
            let mut has = 0;
            while has < BYTES_MIN / 2 {
                has += room.grow(BYTES_MIN - has).await.unwrap();
            }
            rooms.push((room, has));
        }
        assert_eq!(buffer.free_bytes(), 0);
        let (mut second, second_has) = rooms.pop().unwrap();
        let (mut first, first_has) = rooms.pop().unwrap();
        assert_eq!(first.grow(BYTES_MIN - first_has).await.unwrap(), BYTES_MIN - first_has);
        let waits = second.grow(BYTES_MIN - second_has);
        let ends = async { drop(first) };
        let (granted, ()) = tokio::join!(waits, ends);
        assert!(granted.unwrap() > 0);
    }

    #[tokio::test]
    async fn a_peer_has_a_quarter_at_most_but_room_for_one_range() {
        let part = |bytes| Buffer::new(bytes).part_of_peer().0.available_permits();
        assert_eq!(part(512 << 20), PEER_BYTES_MAX / BYTES_PER_PERMIT);
        assert_eq!(part(64 << 20), (16 << 20) / BYTES_PER_PERMIT);
        assert_eq!(part(0), BYTES_MIN / BYTES_PER_PERMIT);
    }
}
