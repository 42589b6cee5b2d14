//! What all handles and tasks of one client share, and how its calls are made.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::config::ClientConfig;
use super::data::Stores;
use super::error::{ClientError, Failure};
use super::exchange::{Priority, exchange};
use super::link::Link;
use super::mounts::MountBook;
use super::random::random;
use super::retry::{Backoff, Deadline};
use super::segments::SegmentCache;
use super::trace::{CallSpan, Tracing};
use crate::frame::TraceContext;
use crate::message::Request;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: ClientConfig,
    pub(super) link: Link,
    pub(super) mounts: MountBook,
    pub(super) segments: SegmentCache,
    pub(super) stores: Stores,
    pub(super) tracing: Tracing,
    in_flight: Semaphore,
    put_ids: AtomicU64,
}

/// An answer of the master.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) reply: T,
    /// Before the request that was answered was sent: leases count from here.
    pub(super) asked_at: Instant,
    /// An attempt before may have been carried out although its answer was lost.
    pub(super) maybe_done_before: bool,
}

impl Shared {
    pub(super) fn new(config: ClientConfig) -> Shared {
        Shared {
            link: Link::new(&config),
            mounts: MountBook::default(),
            segments: SegmentCache::default(),
            stores: Stores::new(&config),
            tracing: Tracing::new(&config),
            in_flight: Semaphore::new(config.max_in_flight.min(Semaphore::MAX_PERMITS)),
            put_ids: AtomicU64::new(random()),
            config,
        }
    }

    /// An id for a put: unlike every other one of this client.
    pub(super) fn next_put_id(&self) -> u64 {
        self.put_ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after_ms(self.config.request_timeout_ms)
    }

    /// One attempt on the current connection, or on the next one if there is none.
    pub(super) async fn call_once<R: Request>(
        &self,
        request: &R,
        deadline: Deadline,
        trace: Option<TraceContext>,
    ) -> Result<(R::Reply, Instant), Failure> {
        let turn = deadline.bound(WAIT_TURN, self.in_flight.acquire()).await;
        // The semaphore is never closed, so a permit is missing only after a timeout.
        let _permit = turn.map_err(Failure::known)?;
        let session = self.link.session(deadline).await.map_err(Failure::known)?;
        let asked_at = Instant::now();
        let connection = &session.dialed.connection;
        let reply = exchange(connection, request, deadline, Priority::Usual, trace).await?;
        Ok((reply, asked_at))
    }

    /// As many attempts as the deadline allows, for requests that may be carried out twice.
    pub(super) async fn call_until<R: Request>(
        &self,
        request: &R,
        deadline: Deadline,
    ) -> Result<Answer<R::Reply>, ClientError> {
        let mut span = self.tracing.begin(R::KIND);
        let outcome = self.attempt_until(request, deadline, &mut span).await;
        span.end(&outcome);
        outcome
    }

    async fn attempt_until<R: Request>(
        &self,
        request: &R,
        deadline: Deadline,
        span: &mut CallSpan,
    ) -> Result<Answer<R::Reply>, ClientError> {
        let mut backoff = Backoff::default();
        let mut maybe_done_before = false;
        loop {
            let failure = match self.call_once(request, deadline, span.context()).await {
                Ok((reply, asked_at)) => return Ok(Answer { reply, asked_at, maybe_done_before }),
                Err(failure) => failure,
            };
            maybe_done_before |= failure.maybe_done;
            let Some(hint) = failure.error.retry() else { return Err(failure.error) };
            span.retry(&failure.error);
            if !deadline.sleep(backoff.pause(hint)).await {
                return Err(failure.error);
            }
        }
    }

    /// [`Shared::call_until`] within the usual time.
    pub(super) async fn call<R: Request>(
        &self,
        request: &R,
    ) -> Result<Answer<R::Reply>, ClientError> {
        self.call_until(request, self.deadline()).await
    }
}

const WAIT_TURN: &str = "the wait for other requests";
