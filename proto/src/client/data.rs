//! The data plane: connections to stores, and ranges of their memory.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::Connection;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::config::ClientConfig;
use super::dial::{Dialed, Dialer};
use super::error::{ClientError, Failure, is_unanswered};
use super::exchange::{Priority, Stream, decode_header, decode_reply, encode, settle, violation};
use super::retry::Deadline;
use super::transport;
use crate::close;
use crate::error::{ErrorCode, WireError};
use crate::frame::REPLY_HEADER_BYTES;
use crate::limits::RANGE_WRITE_TIMEOUT_MS;
use crate::message::data::{MountedRange, ReadRangeReply, ReadRangeRequest, WriteRangeRequest};
use crate::message::segment::Segment;
use crate::message::session::ALPN_STORE;

/// The stores that this client has talked to.
#[derive(Debug)]
pub(super) struct Stores {
    config: ClientConfig,
    links: Mutex<HashMap<StoreAddress, Arc<StoreLink>>>,
    /// Bounds the pieces that are under way, and with them the memory and the streams they take.
    pieces: Semaphore,
}

/// How a store is reached. A store that shows another certificate is another store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StoreAddress {
    endpoint: String,
    certificate_sha256: Option<[u8; 32]>,
}

impl StoreAddress {
    fn of(segment: &Segment) -> StoreAddress {
        StoreAddress {
            endpoint: segment.endpoint.clone(),
            certificate_sha256: segment.certificate_sha256,
        }
    }
}

#[derive(Debug)]
struct StoreLink {
    dialer: Dialer,
    /// When a call found last that the store does not answer.
    unanswered: Mutex<Option<Instant>>,
    /// Locked while it is dialed, so that all who wait share one attempt.
    state: tokio::sync::Mutex<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    dialed: Option<Dialed>,
    failed: Option<(Instant, ClientError)>,
}

impl Stores {
    pub(super) fn new(config: &ClientConfig) -> Stores {
        Stores {
            config: config.clone(),
            links: Mutex::default(),
            pieces: Semaphore::new(PIECES_IN_FLIGHT),
        }
    }

    /// Fills the buffer with a range of the segment's memory; both are of one length.
    pub(super) async fn read(
        &self,
        segment: &Segment,
        range: MountedRange,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let _permit = self.pieces.acquire().await;
        let deadline = Deadline::after_ms(self.config.request_timeout_ms);
        let link = self.reachable(segment)?;
        let first = async {
            let connection = link.connect(deadline).await?;
            read_range(&connection, range, buffer, deadline).await
        };
        let outcome = match first.await {
            // The connection may have died unnoticed since it was used last.
            Err(failure) if is_stale(&failure) => {
                let connection = link.connect(deadline).await?;
                read_range(&connection, range, buffer, deadline).await
            }
            outcome => outcome,
        };
        outcome.inspect_err(|failure| link.learn(failure))
    }

    /// Writes the bytes into a range of the segment's memory; both are of one length.
    ///
    /// None is begun after `begin_by`, and none is under way for longer than the range is held after
    /// it. One that was sent and not answered is not repeated: the store may still carry it out after
    /// the second one, when the put has ended and the range is of another object.
    pub(super) async fn write(
        &self,
        segment: &Segment,
        range: MountedRange,
        bytes: Bytes,
        begin_by: Deadline,
    ) -> Result<(), Failure> {
        let _permit = self.pieces.acquire().await;
        let deadline = self.write_deadline();
        let link = self.reachable(segment)?;
        let outcome = match link.write(range, bytes.clone(), deadline, begin_by).await {
            // The connection may have died unnoticed since it was used last.
            Err(stale) if is_stale(&stale) && !stale.maybe_done => {
                link.write(range, bytes, deadline, begin_by).await
            }
            outcome => outcome,
        };
        outcome.inspect_err(|failure| {
            // That it is too late says nothing of the store.
            if !begin_by.has_passed() {
                link.learn(failure);
            }
        })
    }

    fn write_deadline(&self) -> Deadline {
        Deadline::after_ms(self.config.request_timeout_ms.min(RANGE_WRITE_TIMEOUT_MS))
    }

    /// Says of each segment whether its store did not answer a while ago; `None` if all did.
    pub(super) fn shunned(&self) -> Option<impl Fn(&Segment) -> bool + use<>> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let shunned = links.iter().filter(|(_, link)| link.is_shunned());
        let shunned: HashSet<StoreAddress> = shunned.map(|(address, _)| address.clone()).collect();
        if shunned.is_empty() {
            return None;
        }
        Some(move |segment: &Segment| shunned.contains(&StoreAddress::of(segment)))
    }

    /// Forgets the stores that none of these segments lies at.
    pub(super) fn keep_only<'a>(&self, segments: impl Iterator<Item = &'a Segment>) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.is_empty() {
            return;
        }
        let kept: HashSet<StoreAddress> = segments.map(StoreAddress::of).collect();
        links.retain(|address, _| kept.contains(address));
    }

    /// Closes all connections to stores.
    pub(super) fn close(&self) {
        let links = std::mem::take(&mut *self.links.lock().unwrap_or_else(PoisonError::into_inner));
        for link in links.into_values() {
            // One that is being dialed just now closes with its last user.
            if let Ok(state) = link.state.try_lock()
                && let Some(dialed) = &state.dialed
            {
                dialed.connection.close(close::NORMAL.into(), b"the client is done");
            }
        }
    }

    /// The link to the store of a segment.
    fn reachable(&self, segment: &Segment) -> Result<Arc<StoreLink>, Failure> {
        match &segment.transfer_engine {
            None => Ok(self.link(segment)),
            Some(engine) => Err(Failure::known(ClientError::Connect {
                address: segment.endpoint.clone(),
                reason: format!(
                    "its memory is reached by Mooncake's transfer engine ({}), not over QUIC",
                    engine.protocol
                ),
            })),
        }
    }

    fn link(&self, segment: &Segment) -> Arc<StoreLink> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.entry(StoreAddress::of(segment)).or_insert_with(|| {
            Arc::new(StoreLink {
                dialer: Dialer::new(
                    segment.endpoint.clone(),
                    self.config.tls.for_store(segment.certificate_sha256),
                    ALPN_STORE,
                    &self.config,
                ),
                unanswered: Mutex::default(),
                state: tokio::sync::Mutex::default(),
            })
        });
        link.clone()
    }
}

impl StoreLink {
    /// A store that wants another certificate of this client says so only after the handshake.
    fn learn(&self, failure: &Failure) {
        if matches!(failure.error, ClientError::Tls(_)) {
            self.dialer.reload();
        }
        if is_unanswered(&failure.error) {
            *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    async fn write(
        &self,
        range: MountedRange,
        bytes: Bytes,
        deadline: Deadline,
        begin_by: Deadline,
    ) -> Result<(), Failure> {
        let connection = self.connect(deadline.or_sooner(begin_by)).await?;
        write_range(&connection, range, bytes, deadline, begin_by).await
    }

    fn is_shunned(&self) -> bool {
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        unanswered.is_some_and(|at| at.elapsed() < SHUNNED_FOR)
    }

    /// The open connection, or a new one.
    async fn connect(&self, deadline: Deadline) -> Result<Connection, Failure> {
        let waited = deadline.bound(WAIT_CONNECTION, self.state.lock()).await;
        let mut state = waited.map_err(Failure::known)?;
        if let Some(dialed) = &state.dialed
            && dialed.connection.close_reason().is_none()
        {
            return Ok(dialed.connection.clone());
        }
        state.dialed = None;
        if let Some((at, error)) = &state.failed
            && at.elapsed() < FAILURE_COUNTS_FOR
        {
            return Err(Failure::known(error.clone()));
        }
        let idle_timeout = transport::idle_timeout(None);
        match self.dialer.dial(idle_timeout, |dialed| async { Ok(dialed) }).await {
            Ok(dialed) => {
                let connection = dialed.connection.clone();
                state.dialed = Some(dialed);
                state.failed = None;
                Ok(connection)
            }
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(Failure::known(error))
            }
        }
    }
}

/// Whether another connection may succeed where this one was lost.
fn is_stale(failure: &Failure) -> bool {
    matches!(failure.error, ClientError::Closed { .. }) && failure.error.retry().is_some()
}

async fn read_range(
    connection: &Connection,
    range: MountedRange,
    buffer: &mut [u8],
    deadline: Deadline,
) -> Result<(), Failure> {
    let head = encode(&ReadRangeRequest { range }, deadline, None)?;
    let mut stream = Stream::open(connection, deadline, Priority::Usual).await?;
    let answer = async {
        stream.send(&mut [head]).await?;
        read_head::<ReadRangeRequest>(&mut stream).await
    };
    let reply = settle(deadline.bound(WAIT_READ, answer).await)??;
    read_bytes(&mut stream, reply, buffer, deadline).await?;
    stream.complete();
    Ok(())
}

async fn read_bytes(
    stream: &mut Stream,
    reply: ReadRangeReply,
    buffer: &mut [u8],
    deadline: Deadline,
) -> Result<(), Failure> {
    if reply.length_bytes as usize != buffer.len() {
        let (sent, asked) = (reply.length_bytes, buffer.len());
        return Err(violation(format!("a store sent {sent} bytes for a range of {asked}")));
    }
    let bytes = async {
        stream.receive.read_exact(buffer).await?;
        // The end must follow, which also tells QUIC that nothing is left to stop.
        match stream.receive.read(&mut [0; 1]).await? {
            None => Ok(()),
            Some(_) => Err(ClientError::Protocol("bytes follow a range that was read".to_owned())),
        }
    };
    settle(deadline.bound(WAIT_READ, bytes).await)?;
    if crc32c::crc32c(buffer) != reply.crc32c {
        let text = "of a range that was read";
        let error = WireError::new(ErrorCode::ChecksumMismatch, text);
        return Err(Failure::known(ClientError::Refused(error)));
    }
    Ok(())
}

async fn write_range(
    connection: &Connection,
    range: MountedRange,
    bytes: Bytes,
    deadline: Deadline,
    begin_by: Deadline,
) -> Result<(), Failure> {
    let request = WriteRangeRequest { range, crc32c: crc32c::crc32c(&bytes) };
    let head = encode(&request, deadline, None)?;
    let opened = Stream::open(connection, deadline.or_sooner(begin_by), Priority::Usual).await;
    let mut stream = opened?;
    if begin_by.has_passed() {
        return Err(Failure::known(ClientError::timeout(WAIT_BEGIN)));
    }
    let answer = async {
        stream.send(&mut [head, bytes]).await?;
        let reply = read_head::<WriteRangeRequest>(&mut stream).await?;
        if reply.is_ok() && stream.receive.read(&mut [0; 1]).await?.is_some() {
            let text = "bytes follow the reply to a write".to_owned();
            return Err(ClientError::Protocol(text));
        }
        Ok(reply)
    };
    settle(deadline.bound(WAIT_WRITE, answer).await)??;
    stream.complete();
    Ok(())
}

/// The reply that precedes bytes, or the refusal in its place.
async fn read_head<R: crate::message::Request>(
    stream: &mut Stream,
) -> Result<Result<R::Reply, Failure>, ClientError> {
    let mut head = [0; REPLY_HEADER_BYTES];
    stream.receive.read_exact(&mut head).await?;
    let header = match decode_header(&head) {
        Ok(header) => header,
        Err(failure) => return Ok(Err(failure)),
    };
    // The header's own limit bounds this; a store's replies are some bytes.
    let mut body = vec![0; header.body_bytes as usize];
    stream.receive.read_exact(&mut body).await?;
    Ok(decode_reply::<R>(&header, &body))
}

/// As many as fill a fast link, and 256 MiB of pieces at most.
const PIECES_IN_FLIGHT: usize = 64;

/// Those who waited for a store that cannot be reached do not each try again.
const FAILURE_COUNTS_FOR: Duration = Duration::from_millis(500);

/// About as long as a master needs to notice that a store is gone.
const SHUNNED_FOR: Duration = Duration::from_secs(10);

const WAIT_CONNECTION: &str = "the connection to a store";
const WAIT_READ: &str = "a read from a store";
const WAIT_BEGIN: &str = "a reservation, before its last write was begun,";
const WAIT_WRITE: &str = "a write to a store";

#[cfg(test)]
mod tests {
    use super::super::tls::ClientTls;
    use super::*;

    #[test]
    fn a_write_is_given_up_in_time_however_long_a_call_may_take() {
        for (request_timeout_ms, most_ms) in [(600_000, 30_000), (30_000, 30_000), (5, 5)] {
            let tls = ClientTls::pinned([0; 32]);
            let mut config = ClientConfig::new("localhost:1", tls);
            config.request_timeout_ms = request_timeout_ms;
            let left = Stores::new(&config).write_deadline().left();
            assert!(left <= Duration::from_millis(most_ms), "{request_timeout_ms}: {left:?}");
            assert!(left >= Duration::from_millis(most_ms / 2) || most_ms < 1_000);
        }
    }
}
