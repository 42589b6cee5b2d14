//! The headers around bodies, and where a frame ends.
//!
//! A frame is a header, a body and an attachment. Nothing in this protocol uses attachments; those
//! that come are skipped.

/// The first byte of each header.
pub const MAGIC: u8 = 0x15;

/// The version of the headers.
const VERSION: u8 = 0;

/// The only way of writing bodies, the one of [`Pack`](super::Pack).
const SERIALIZE_TYPE: u8 = 0;

/// Bytes of a request's header.
pub const REQUEST_HEADER_BYTES: usize = 20;

/// Bytes of a reply's header.
pub const REPLY_HEADER_BYTES: usize = 16;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Which call of the connection this is; the reply repeats it.
    pub seq: u32,
    /// The function.
    pub function_id: u32,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Bytes behind the body that are skipped.
    pub attachment_bytes: u32,
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// Zero if the body is the result; else the number of an [`RpcError`](super::RpcError), and the
    /// body is a text; 255 if the body has the number, too.
    pub error: u8,
    /// The one of the request.
    pub seq: u32,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Bytes behind the body that are skipped.
    pub attachment_bytes: u32,
}

/// Why a connection cannot go on: where the next frame begins is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// Another protocol, or the middle of a frame.
    #[error("the frame starts with {byte:#04x} instead of {MAGIC:#04x}")]
    Magic {
        /// The first byte.
        byte: u8,
    },
    /// A later version.
    #[error("frame version {version}, this end speaks {VERSION}")]
    Version {
        /// The version.
        version: u8,
    },
    /// Bodies in another encoding.
    #[error("bodies of serialize type {kind}, this end speaks {SERIALIZE_TYPE}")]
    SerializeType {
        /// The encoding.
        kind: u8,
    },
    /// A frame above the limit.
    #[error("a frame of {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// The number of the call, to answer it before the connection is closed.
        seq: u32,
        /// Bytes of the whole frame.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
}

impl RequestHeader {
    /// The header as it stands on the wire.
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[..4].copy_from_slice(&[MAGIC, VERSION, SERIALIZE_TYPE, 0]);
        bytes[4..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.function_id.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.attachment_bytes.to_le_bytes());
        bytes
    }

    /// Reads a header. The fourth byte, the type of the message, is not looked at.
    ///
    /// # Errors
    /// All but `TooLarge`.
    pub fn decode(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Result<RequestHeader, FramingError> {
        check_start(bytes)?;
        if bytes[2] != SERIALIZE_TYPE {
            return Err(FramingError::SerializeType { kind: bytes[2] });
        }
        Ok(RequestHeader {
            seq: word(bytes, 4),
            function_id: word(bytes, 8),
            body_bytes: word(bytes, 12),
            attachment_bytes: word(bytes, 16),
        })
    }
}

impl ReplyHeader {
    /// The header as it stands on the wire.
    pub fn encode(&self) -> [u8; REPLY_HEADER_BYTES] {
        let mut bytes = [0; REPLY_HEADER_BYTES];
        bytes[..4].copy_from_slice(&[MAGIC, VERSION, self.error, 0]);
        bytes[4..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.attachment_bytes.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// `Magic` and `Version`.
    pub fn decode(bytes: &[u8; REPLY_HEADER_BYTES]) -> Result<ReplyHeader, FramingError> {
        check_start(bytes)?;
        Ok(ReplyHeader {
            error: bytes[2],
            seq: word(bytes, 4),
            body_bytes: word(bytes, 8),
            attachment_bytes: word(bytes, 12),
        })
    }
}

/// A whole frame at the front of what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a, H> {
    /// Its header.
    pub header: H,
    /// Its body.
    pub body: &'a [u8],
    /// How many bytes of the buffer it takes, with header and attachment.
    pub bytes: usize,
}

/// The first request of `buffer`, or `None` if it is not there to its end. A start that cannot be a
/// request is refused as soon as it is seen.
///
/// # Errors
/// A [`FramingError`]; after it the connection cannot be read further.
pub fn split_request(
    buffer: &[u8],
    frame_bytes_max: usize,
) -> Result<Option<Frame<'_, RequestHeader>>, FramingError> {
    let Some(start) = buffer.first_chunk() else {
        check_start(buffer)?;
        return Ok(None);
    };
    let header = RequestHeader::decode(start)?;
    let RequestHeader { seq, body_bytes, attachment_bytes, .. } = header;
    let parts = Parts { header_bytes: REQUEST_HEADER_BYTES, body_bytes, attachment_bytes };
    let cut = parts.cut(buffer, seq, frame_bytes_max)?;
    Ok(cut.map(|(body, bytes)| Frame { header, body, bytes }))
}

/// The first reply of `buffer`, or `None` if it is not there to its end.
///
/// # Errors
/// As [`split_request`].
pub fn split_reply(
    buffer: &[u8],
    frame_bytes_max: usize,
) -> Result<Option<Frame<'_, ReplyHeader>>, FramingError> {
    let Some(start) = buffer.first_chunk() else {
        check_start(buffer)?;
        return Ok(None);
    };
    let header = ReplyHeader::decode(start)?;
    let ReplyHeader { seq, body_bytes, attachment_bytes, .. } = header;
    let parts = Parts { header_bytes: REPLY_HEADER_BYTES, body_bytes, attachment_bytes };
    let cut = parts.cut(buffer, seq, frame_bytes_max)?;
    Ok(cut.map(|(body, bytes)| Frame { header, body, bytes }))
}

/// The lengths of a frame.
struct Parts {
    header_bytes: usize,
    body_bytes: u32,
    attachment_bytes: u32,
}

impl Parts {
    /// The body at the front of `buffer`, and the length of the frame, once all of it is there.
    fn cut<'a>(
        &self,
        buffer: &'a [u8],
        seq: u32,
        bytes_max: usize,
    ) -> Result<Option<(&'a [u8], usize)>, FramingError> {
        let body_end = self.header_bytes as u64 + u64::from(self.body_bytes);
        let bytes = body_end + u64::from(self.attachment_bytes);
        if bytes > bytes_max as u64 {
            return Err(FramingError::TooLarge { seq, bytes, bytes_max });
        }
        // Both fit: they are not above the limit, which is a `usize`.
        let (body_end, bytes) = (body_end as usize, bytes as usize);
        Ok(buffer.get(..bytes).map(|frame| (&frame[self.header_bytes..body_end], bytes)))
    }
}

/// Checks the first two bytes, as far as they are there.
fn check_start(bytes: &[u8]) -> Result<(), FramingError> {
    match *bytes {
        [byte, ..] if byte != MAGIC => Err(FramingError::Magic { byte }),
        [_, version, ..] if version != VERSION => Err(FramingError::Version { version }),
        _ => Ok(()),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
