//! Pings: the client says that it lives, and hears whether it must mount its segments again.

use std::time::Duration;

use quinn::RecvStream;
use tokio::time::Instant;

use super::error::ClientError;
use super::exchange::{Priority, exchange};
use super::link::Session;
use super::retry::Deadline;
use super::shared::Shared;
use crate::frame::{REQUEST_HEADER_BYTES, RequestHeader};
use crate::message::Kind;
use crate::message::session::{PingReply, PingRequest};

impl Shared {
    /// Pings on every session, until the link ends.
    pub(super) async fn keep_alive(&self) {
        while let Ok(session) = self.link.next_session().await {
            // A master of another incarnation knows nothing of this client; need not be asked.
            if self.mounts.is_foreign_to(session.hello.incarnation) {
                self.mounts.remount_now();
            }
            self.ping_while_open(&session).await;
        }
    }

    async fn ping_while_open(&self, session: &Session) {
        let connection = &session.dialed.connection;
        let mut interval = ping_interval(session.hello.client_ttl_ms);
        let mut next_ping = Instant::now();
        loop {
            tokio::select! {
                _ = connection.closed() => return,
                () = tokio::time::sleep_until(next_ping) => {}
                () = self.link.ping_now.notified() => {}
                stream = connection.accept_uni() => match stream {
                    Ok(stream) => {
                        if !is_attention(stream).await {
                            continue;
                        }
                    }
                    Err(_) => return,
                },
            }
            // The pause counts from the sending, so that a slow answer costs no ping.
            let sent = Instant::now();
            match self.ping(session, interval).await {
                Ok(reply) => {
                    interval = ping_interval(reply.client_ttl_ms);
                    if reply.need_remount {
                        self.mounts.remount_now();
                    }
                }
                Err(error) => tracing::debug!(%error, "a ping failed"),
            }
            next_ping = sent + interval;
        }
    }

    async fn ping(&self, session: &Session, interval: Duration) -> Result<PingReply, ClientError> {
        let (mounted_segments, kept) = self.mounts.summary();
        let request = PingRequest { mounted_segments, kept };
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let deadline = Deadline::after_ms(interval_ms.max(PING_TIMEOUT_MS_MIN));
        exchange(&session.dialed.connection, &request, deadline, Priority::Control, None)
            .await
            .map_err(|failure| failure.error)
    }
}

/// Whether the master asks for a ping. Streams that a later version may open are ignored.
async fn is_attention(mut stream: RecvStream) -> bool {
    let read = async {
        let mut head = [0; REQUEST_HEADER_BYTES];
        stream.read_exact(&mut head).await.ok()?;
        let header = RequestHeader::decode(&head).ok()?;
        // The body says how long the client was silent, which changes nothing here.
        let _ = stream.read_to_end(ATTENTION_BYTES_MAX).await;
        Some(header.kind)
    };
    let kind = tokio::time::timeout(ATTENTION_WITHIN, read).await.ok().flatten();
    kind == Some(Kind::Attention)
}

/// A fifth of the TTL, so that four pings may be lost.
fn ping_interval(client_ttl_ms: u64) -> Duration {
    Duration::from_millis((client_ttl_ms / 5).clamp(PING_INTERVAL_MS_MIN, PING_INTERVAL_MS_MAX))
}

/// Bounds the load that a very short TTL makes.
const PING_INTERVAL_MS_MIN: u64 = 50;

/// A restart that the connection survives is noticed by the ping.
const PING_INTERVAL_MS_MAX: u64 = 30_000;

/// A master that is busy for a moment still gets to answer.
const PING_TIMEOUT_MS_MIN: u64 = 1_000;

/// Far above the body of an attention.
const ATTENTION_BYTES_MAX: usize = 1_024;

/// The few bytes of an attention come in one packet.
const ATTENTION_WITHIN: Duration = Duration::from_millis(200);
