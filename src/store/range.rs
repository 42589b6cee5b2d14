//! One request of the data plane: read, check, copy, answer. Knows no QUIC.

use std::io;

use bytes::Bytes;
use mooring_proto::frame::{
    REQUEST_HEADER_BYTES, RequestHeader, TRACE_CONTEXT_BYTES, decode_request, encode_refusal,
    encode_reply, kind_number,
};
use mooring_proto::message::Kind;
use mooring_proto::message::data::{
    ReadRangeReply, ReadRangeRequest, WriteRangeReply, WriteRangeRequest,
};
use mooring_proto::{ErrorCode, WireError};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::buffer::{Buffer, GrowingRoom, PeerBuffer, Room};
use super::mounts::Mounts;

/// Answers ranges, with a bound on the bytes that it buffers for all peers together.
#[derive(Debug)]
pub(crate) struct RangeService {
    mounts: Mounts,
    buffer: Buffer,
}

/// What goes back on the stream.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The frame of the reply or of the refusal.
    pub(crate) frame: Vec<u8>,
    /// The bytes that follow it.
    pub(crate) bytes: Bytes,
    /// Whether the rest of the request is not wanted.
    pub(crate) refused: bool,
    /// The room that the bytes take, until they are handed on.
    _room: Option<Room>,
}

impl RangeService {
    /// A service that buffers at most this many bytes, and at least one range of the largest size.
    pub(crate) fn new(mounts: Mounts, buffer_bytes: usize) -> RangeService {
        RangeService { mounts, buffer: Buffer::new(buffer_bytes) }
    }

    /// The part of a new peer.
    pub(crate) fn peer_buffer(&self) -> PeerBuffer {
        self.buffer.part_of_peer()
    }

    /// Reads a request to its end and does it.
    ///
    /// # Errors
    /// Only if the peer went away; everything else is an answer.
    pub(crate) async fn answer<R>(&self, peer: &PeerBuffer, request: &mut R) -> io::Result<Answer>
    where
        R: AsyncRead + Unpin,
    {
        let mut header = [0; REQUEST_HEADER_BYTES];
        let outcome = match read_exact(request, &mut header).await {
            Ok(()) => self.perform(peer, request, &header).await,
            Err(fault) => Err(fault),
        };
        match outcome {
            Ok(answer) => Ok(answer),
            Err(Fault::Refused(error)) => Ok(Answer::refusal(kind_number(&header), &error)),
            Err(Fault::Gone(error)) => Err(error),
        }
    }

    /// As [`answer`](Self::answer), until the peer gives the request up. A write that was given up
    /// while it waited for room leaves memory as it was, also if there is room at the same moment:
    /// its range may soon be of another object.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), and if the peer does not want it any more.
    pub(crate) async fn answer_while_wanted<R>(
        &self,
        peer: &PeerBuffer,
        request: &mut R,
        given_up: impl Future,
    ) -> io::Result<Answer>
    where
        R: AsyncRead + Unpin,
    {
        tokio::select! {
            biased;
            _ = given_up => Err(io::Error::other("the peer does not want the answer any more")),
            answer = self.answer(peer, request) => answer,
        }
    }

    async fn perform<R>(
        &self,
        peer: &PeerBuffer,
        request: &mut R,
        header: &[u8; REQUEST_HEADER_BYTES],
    ) -> Result<Answer, Fault>
    where
        R: AsyncRead + Unpin,
    {
        let header = RequestHeader::decode(header)?;
        let body_bytes = header.body_bytes as usize;
        if body_bytes > BODY_BYTES_MAX {
            let text = format!("a body of {body_bytes} bytes, the limit here is {BODY_BYTES_MAX}");
            return Err(WireError::new(ErrorCode::TooLarge, text).into());
        }
        if header.traced {
            read_exact(request, &mut [0; TRACE_CONTEXT_BYTES]).await?;
        }
        let mut body = [0; BODY_BYTES_MAX];
        let body = &mut body[..body_bytes];
        match header.kind {
            Kind::ReadRange => {
                read_exact(request, body).await?;
                self.read(peer, &decode_request(body)?).await
            }
            Kind::WriteRange => {
                read_exact(request, body).await?;
                self.write(peer, &decode_request(body)?, request).await
            }
            other => {
                let text = format!("{other:?} is not a request to a store");
                Err(WireError::new(ErrorCode::UnknownKind, text).into())
            }
        }
    }

    async fn read(&self, peer: &PeerBuffer, request: &ReadRangeRequest) -> Result<Answer, Fault> {
        // Before it waits for room: a range of a former mount is refused at once.
        self.mounts.check(&request.range)?;
        let room = self.buffer.room(peer, request.range.length_bytes as usize).await?;
        let bytes = self.mounts.read(&request.range)?;
        let reply = ReadRangeReply {
            length_bytes: request.range.length_bytes,
            crc32c: crc32c::crc32c(&bytes),
        };
        let frame = encode_reply(Kind::ReadRange, Ok(&reply));
        Ok(Answer { frame, bytes: bytes.into(), refused: false, _room: Some(room) })
    }

    /// The bytes are received and checked before the first one is written in place, so that a write
    /// that breaks off or arrives damaged leaves memory as it was.
    async fn write<R>(
        &self,
        peer: &PeerBuffer,
        request: &WriteRangeRequest,
        rest: &mut R,
    ) -> Result<Answer, Fault>
    where
        R: AsyncRead + Unpin,
    {
        self.mounts.check(&request.range)?;
        let length = request.range.length_bytes as usize;
        let mut room = self.buffer.growing_room(peer, length).await?;
        let bytes = read_bytes(rest, length, &mut room).await?;
        let found = crc32c::crc32c(&bytes);
        if found != request.crc32c {
            let text = format!("announced {:#010x}, found {found:#010x}", request.crc32c);
            return Err(WireError::new(ErrorCode::ChecksumMismatch, text).into());
        }
        self.mounts.write(&request.range, &bytes)?;
        drop(room);
        let frame = encode_reply(Kind::WriteRange, Ok(&WriteRangeReply {}));
        Ok(Answer { frame, bytes: Bytes::new(), refused: false, _room: None })
    }
}

impl Answer {
    fn refusal(kind_number: u16, error: &WireError) -> Answer {
        let frame = encode_refusal(kind_number, error);
        Answer { frame, bytes: Bytes::new(), refused: true, _room: None }
    }
}

/// Why a request has no good answer.
#[derive(Debug)]
enum Fault {
    /// It is answered with this.
    Refused(WireError),
    /// There is nobody to answer.
    Gone(io::Error),
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Fault {
        Fault::Refused(error)
    }
}

async fn read_exact<R: AsyncRead + Unpin>(from: &mut R, bytes: &mut [u8]) -> Result<(), Fault> {
    from.read_exact(bytes).await.map(drop).map_err(fault_of)
}

/// The bytes of a write: exactly so many, and then the end of the stream.
async fn read_bytes<R: AsyncRead + Unpin>(
    from: &mut R,
    length: usize,
    room: &mut GrowingRoom,
) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let granted = room.grow(length - bytes.len()).await?;
        let mut limited = (&mut *from).take(granted as u64);
        let end = bytes.len() + granted;
        while bytes.len() < end {
            if limited.read_buf(&mut bytes).await.map_err(fault_of)? == 0 {
                return Err(fault_of(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
    match from.read(&mut [0; 1]).await.map_err(fault_of)? {
        0 => Ok(bytes),
        _ => {
            let text = format!("more than the announced {length} bytes follow");
            Err(WireError::new(ErrorCode::Malformed, text).into())
        }
    }
}

fn fault_of(error: io::Error) -> Fault {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return WireError::new(ErrorCode::Malformed, "the stream ends inside the request").into();
    }
    Fault::Gone(error)
}

/// Both requests are a few numbers of fixed or bounded size, below 64 bytes.
const BODY_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests;
