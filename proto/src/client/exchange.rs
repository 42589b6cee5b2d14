//! One request and its reply on a stream of their own.

use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream, VarInt, WriteError};

use super::error::{ClientError, Failure};
use super::retry::Deadline;
use crate::close;
use crate::error::WireError;
use crate::frame::{self, REPLY_HEADER_BYTES, ReplyHeader, TraceContext};
use crate::limits::FRAME_BYTES_MAX;
use crate::message::Request;

/// How a stream stands to the others of its connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Priority {
    /// What the life of the client hangs on: pings and remounts.
    Control = 1,
    /// Everything else.
    Usual = 0,
}

/// Sends a request and reads its reply.
pub(super) async fn exchange<R: Request>(
    connection: &Connection,
    request: &R,
    deadline: Deadline,
    priority: Priority,
    trace: Option<TraceContext>,
) -> Result<R::Reply, Failure> {
    let head = encode(request, deadline, trace)?;
    let mut stream = Stream::open(connection, deadline, priority).await?;
    let answer = async {
        stream.send(&mut [head]).await?;
        let reply = stream.receive.read_to_end(REPLY_HEADER_BYTES + FRAME_BYTES_MAX).await?;
        Ok(reply)
    };
    let reply = settle(deadline.bound(WAIT_REPLY, answer).await)?;
    stream.complete();
    let (head, body) = split_header(&reply)?;
    decode_reply::<R>(&head, body)
}

/// Checks the limits of a request and encodes it; nothing has been sent when this fails.
pub(super) fn encode<R: Request>(
    request: &R,
    deadline: Deadline,
    trace: Option<TraceContext>,
) -> Result<Bytes, Failure> {
    let encoded = request
        .check()
        .and_then(|()| frame::encode_request(request, deadline.left_ms(), trace.as_ref()))
        .map_err(|error| Failure::known(ClientError::Refused(error)))?;
    Ok(encoded.into())
}

/// The reply, or the refusal in its place.
pub(super) fn decode_reply<R: Request>(
    header: &ReplyHeader,
    body: &[u8],
) -> Result<R::Reply, Failure> {
    if header.body_bytes as usize != body.len() {
        return Err(violation(format!(
            "a reply of {} bytes, its header says {}",
            body.len(),
            header.body_bytes
        )));
    }
    if header.status != 0 {
        let error: WireError = frame::decode_body(body).map_err(|error| violation(error.text))?;
        return Err(Failure::known(ClientError::Refused(error)));
    }
    if header.kind != R::KIND {
        return Err(violation(format!("a reply of kind {:?} to {:?}", header.kind, R::KIND)));
    }
    frame::decode_body(body).map_err(|error| violation(error.text))
}

pub(super) fn decode_header(bytes: &[u8; REPLY_HEADER_BYTES]) -> Result<ReplyHeader, Failure> {
    ReplyHeader::decode(bytes).map_err(|error| violation(error.text))
}

fn split_header(reply: &[u8]) -> Result<(ReplyHeader, &[u8]), Failure> {
    match reply.split_first_chunk::<REPLY_HEADER_BYTES>() {
        Some((head, body)) => Ok((decode_header(head)?, body)),
        None => Err(violation(format!("a reply of {} bytes", reply.len()))),
    }
}

/// The peer answered something that cannot be understood, so what it did is unknown.
pub(super) fn violation(text: String) -> Failure {
    Failure::unknown(ClientError::Protocol(text))
}

/// After the request was sent, every failure leaves open whether it was carried out.
pub(super) fn settle<T>(
    outcome: Result<Result<T, ClientError>, ClientError>,
) -> Result<T, Failure> {
    outcome.and_then(|outcome| outcome).map_err(Failure::unknown)
}

/// A stream that is reset when its request is abandoned, so that the peer need not carry it out.
/// Without this a dropped half would look like a request that ends early.
#[derive(Debug)]
pub(super) struct Stream {
    send: SendStream,
    pub(super) receive: RecvStream,
    complete: bool,
}

impl Stream {
    /// Opens a stream; waits while the peer grants none. Nothing has been sent when this fails.
    pub(super) async fn open(
        connection: &Connection,
        deadline: Deadline,
        priority: Priority,
    ) -> Result<Stream, Failure> {
        let opened = deadline.bound(WAIT_STREAM, connection.open_bi()).await;
        let (send, receive) =
            opened.and_then(|opened| opened.map_err(ClientError::from)).map_err(Failure::known)?;
        // Fails only for a stream that is closed, which the first write would find out.
        let _ = send.set_priority(priority as i32);
        Ok(Stream { send, receive, complete: false })
    }

    /// Writes the parts and ends the sending half. A peer that refuses a request may stop it before
    /// it was read; its answer then stands on the other half.
    pub(super) async fn send(&mut self, parts: &mut [Bytes]) -> Result<(), ClientError> {
        match self.send.write_all_chunks(parts).await {
            Ok(()) => {
                // Fails only if the peer stopped the stream meanwhile.
                let _ = self.send.finish();
                Ok(())
            }
            Err(WriteError::Stopped(_)) => Ok(()),
            Err(WriteError::ConnectionLost(lost)) => Err(lost.into()),
            Err(other) => Err(ClientError::Closed { code: None, reason: other.to_string() }),
        }
    }

    /// The reply was read to its end, so there is nothing left to reset.
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.complete {
            // Fails only if there is nothing left to reset. The other half stops by its own drop.
            let _ = self.send.reset(VarInt::from_u32(close::NORMAL));
        }
    }
}

const WAIT_STREAM: &str = "the wait for a free stream";
const WAIT_REPLY: &str = "the request";
