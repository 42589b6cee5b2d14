//! The frame around each message: a fixed header in little-endian, then the body in postcard.
//!
//! Each stream of two directions carries one request and its reply. The header says everything that
//! is needed to refuse a request before its body is buffered.

use serde::Serialize;
use serde::de::Deserialize;

use crate::error::{ErrorCode, WireError};
use crate::limits::FRAME_BYTES_MAX;
use crate::message::session::Attention;
use crate::message::{Kind, Request};

/// The first two bytes of every frame, `MR`.
pub const MAGIC: u16 = u16::from_le_bytes(*b"MR");

/// The version of the frame's layout.
pub const FRAME_VERSION: u8 = 1;

/// Bytes of a request's header, without the trace context.
pub const REQUEST_HEADER_BYTES: usize = 16;

/// Bytes of a reply's header.
pub const REPLY_HEADER_BYTES: usize = 12;

/// Bytes of a trace context: trace id, span id, flags, as in W3C trace context.
pub const TRACE_CONTEXT_BYTES: usize = 25;

/// The flag that says that a trace context follows the header of a request.
const FLAG_TRACED: u8 = 1;

/// The trace that a request belongs to, as in W3C trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Of the whole trace.
    pub trace_id: [u8; 16],
    /// Of the caller's span.
    pub span_id: [u8; 8],
    /// Bit 0: sampled.
    pub flags: u8,
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// What the body is.
    pub kind: Kind,
    /// How many bytes of body follow the header and the trace context.
    pub body_bytes: u32,
    /// After this time the caller no longer waits; zero if it waits as long as it takes.
    pub deadline_ms: u32,
    /// Whether a trace context follows the header.
    pub traced: bool,
}

impl RequestHeader {
    /// The header as it stands on the wire.
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = FRAME_VERSION;
        bytes[3] = if self.traced { FLAG_TRACED } else { 0 };
        bytes[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        // Bytes 6 and 7 are reserved and zero.
        bytes[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.deadline_ms.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// `Malformed` for wrong magic, unknown flags or non-zero reserved bytes, `UnsupportedVersion`
    /// for another layout, `UnknownKind`, and `TooLarge` for a body above 16 MiB.
    pub fn decode(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Result<RequestHeader, WireError> {
        check_prefix(bytes[0], bytes[1], bytes[2])?;
        let flags = bytes[3];
        if flags & !FLAG_TRACED != 0 {
            return Err(WireError::new(
                ErrorCode::Malformed,
                format!("unknown flags {flags:#04x}"),
            ));
        }
        if bytes[6] != 0 || bytes[7] != 0 {
            return Err(WireError::new(ErrorCode::Malformed, "reserved bytes are not zero"));
        }
        let kind = decode_kind(bytes[4], bytes[5])?;
        let body_bytes = decode_body_bytes([bytes[8], bytes[9], bytes[10], bytes[11]])?;
        let deadline_ms = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        Ok(RequestHeader { kind, body_bytes, deadline_ms, traced: flags & FLAG_TRACED != 0 })
    }
}

/// The number of the kind in a request's header, known or not. A refusal of a header that cannot be
/// decoded repeats it.
pub fn kind_number(header: &[u8; REQUEST_HEADER_BYTES]) -> u16 {
    u16::from_le_bytes([header[4], header[5]])
}

impl TraceContext {
    /// The context as it stands on the wire.
    pub fn encode(&self) -> [u8; TRACE_CONTEXT_BYTES] {
        let mut bytes = [0; TRACE_CONTEXT_BYTES];
        bytes[0..16].copy_from_slice(&self.trace_id);
        bytes[16..24].copy_from_slice(&self.span_id);
        bytes[24] = self.flags;
        bytes
    }

    /// Reads a context; every content is a context.
    pub fn decode(bytes: &[u8; TRACE_CONTEXT_BYTES]) -> TraceContext {
        let mut context = TraceContext { trace_id: [0; 16], span_id: [0; 8], flags: bytes[24] };
        context.trace_id.copy_from_slice(&bytes[0..16]);
        context.span_id.copy_from_slice(&bytes[16..24]);
        context
    }
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The kind of the request.
    pub kind: Kind,
    /// Zero: the body is the reply. Otherwise the number of an [`ErrorCode`], and the body is a
    /// [`WireError`].
    pub status: u16,
    /// How many bytes of body follow.
    pub body_bytes: u32,
}

impl ReplyHeader {
    /// The header as it stands on the wire.
    pub fn encode(&self) -> [u8; REPLY_HEADER_BYTES] {
        reply_header(self.kind as u16, self.status, self.body_bytes)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// As [`RequestHeader::decode`].
    pub fn decode(bytes: &[u8; REPLY_HEADER_BYTES]) -> Result<ReplyHeader, WireError> {
        check_prefix(bytes[0], bytes[1], bytes[2])?;
        if bytes[3] != 0 {
            return Err(WireError::new(
                ErrorCode::Malformed,
                format!("unknown flags {:#04x}", bytes[3]),
            ));
        }
        let kind = decode_kind(bytes[4], bytes[5])?;
        let status = u16::from_le_bytes([bytes[6], bytes[7]]);
        let body_bytes = decode_body_bytes([bytes[8], bytes[9], bytes[10], bytes[11]])?;
        Ok(ReplyHeader { kind, status, body_bytes })
    }
}

fn check_prefix(first: u8, second: u8, version: u8) -> Result<(), WireError> {
    if u16::from_le_bytes([first, second]) != MAGIC {
        return Err(WireError::new(ErrorCode::Malformed, "the frame does not start with MR"));
    }
    if version != FRAME_VERSION {
        return Err(WireError::new(
            ErrorCode::UnsupportedVersion,
            format!("frame version {version}, this end speaks {FRAME_VERSION}"),
        ));
    }
    Ok(())
}

fn decode_kind(low: u8, high: u8) -> Result<Kind, WireError> {
    let number = u16::from_le_bytes([low, high]);
    Kind::from_number(number)
        .ok_or_else(|| WireError::new(ErrorCode::UnknownKind, format!("message kind {number}")))
}

fn decode_body_bytes(bytes: [u8; 4]) -> Result<u32, WireError> {
    let body_bytes = u32::from_le_bytes(bytes);
    if body_bytes as usize > FRAME_BYTES_MAX {
        return Err(WireError::new(
            ErrorCode::TooLarge,
            format!("a body of {body_bytes} bytes, the limit is {FRAME_BYTES_MAX}"),
        ));
    }
    Ok(body_bytes)
}

/// Encodes a request with its header.
///
/// # Errors
/// `TooLarge` if the body is above 16 MiB.
pub fn encode_request<R: Request>(
    request: &R,
    deadline_ms: u32,
    trace: Option<&TraceContext>,
) -> Result<Vec<u8>, WireError> {
    encode_request_into(Vec::new(), request, deadline_ms, trace)
}

/// The same in a buffer that had another use before. What it holds is overwritten; its memory is
/// what is used again.
///
/// # Errors
/// As [`encode_request`]; the buffer is then gone.
pub fn encode_request_into<R: Request>(
    buffer: Vec<u8>,
    request: &R,
    deadline_ms: u32,
    trace: Option<&TraceContext>,
) -> Result<Vec<u8>, WireError> {
    let mut head = buffer;
    head.clear();
    head.resize(REQUEST_HEADER_BYTES, 0);
    if let Some(trace) = trace {
        head.extend_from_slice(&trace.encode());
    }
    let head_bytes = head.len();
    let mut frame = append_body(head, request)?;
    let body_bytes = body_length(&frame, head_bytes)?;
    let header = RequestHeader { kind: R::KIND, body_bytes, deadline_ms, traced: trace.is_some() };
    frame[..REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    Ok(frame)
}

/// Encodes a reply, or the error in its place, with its header. An error always fits.
pub fn encode_reply<T: Serialize>(kind: Kind, reply: Result<&T, &WireError>) -> Vec<u8> {
    match reply.map_err(WireError::clone).and_then(|reply| encode_status(kind as u16, 0, reply)) {
        Ok(frame) => frame,
        Err(error) => encode_refusal(kind as u16, &error),
    }
}

/// Encodes an error as the reply to a request whose kind may be unknown, see [`kind_number`]; zero
/// if not even that could be read. A long text is cut.
pub fn encode_refusal(kind_number: u16, error: &WireError) -> Vec<u8> {
    let mut bounded = error.clone();
    bounded.text.truncate(bounded.text.floor_char_boundary(ERROR_TEXT_BYTES_MAX));
    encode_status(kind_number, bounded.code as u16, &bounded)
        .expect("an error with a bounded text is far below the frame limit")
}

/// Encodes the only message that the master sends unasked.
pub fn encode_attention(attention: &Attention) -> Vec<u8> {
    let mut frame =
        append_body(vec![0; REQUEST_HEADER_BYTES], attention).expect("a number can be encoded");
    let body_bytes =
        body_length(&frame, REQUEST_HEADER_BYTES).expect("a number is far below the frame limit");
    let header = RequestHeader { kind: Kind::Attention, body_bytes, deadline_ms: 0, traced: false };
    frame[..REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    frame
}

fn encode_status<T: Serialize>(
    kind_number: u16,
    status: u16,
    body: &T,
) -> Result<Vec<u8>, WireError> {
    let mut head = Vec::with_capacity(FIRST_CAPACITY_BYTES);
    head.resize(REPLY_HEADER_BYTES, 0);
    let mut frame = append_body(head, body)?;
    let body_bytes = body_length(&frame, REPLY_HEADER_BYTES)?;
    let header = reply_header(kind_number, status, body_bytes);
    frame[..REPLY_HEADER_BYTES].copy_from_slice(&header);
    Ok(frame)
}

fn reply_header(kind_number: u16, status: u16, body_bytes: u32) -> [u8; REPLY_HEADER_BYTES] {
    let mut bytes = [0; REPLY_HEADER_BYTES];
    bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[2] = FRAME_VERSION;
    // Byte 3 is reserved for flags and zero.
    bytes[4..6].copy_from_slice(&kind_number.to_le_bytes());
    bytes[6..8].copy_from_slice(&status.to_le_bytes());
    bytes[8..12].copy_from_slice(&body_bytes.to_le_bytes());
    bytes
}

fn append_body<T: Serialize>(head: Vec<u8>, body: &T) -> Result<Vec<u8>, WireError> {
    postcard::to_extend(body, head)
        .map_err(|error| WireError::new(ErrorCode::Internal, format!("cannot encode: {error}")))
}

fn body_length(frame: &[u8], head_bytes: usize) -> Result<u32, WireError> {
    let body_bytes = frame.len() - head_bytes;
    match u32::try_from(body_bytes) {
        Ok(body_bytes) if body_bytes as usize <= FRAME_BYTES_MAX => Ok(body_bytes),
        _ => Err(WireError::new(
            ErrorCode::TooLarge,
            format!("a body of {body_bytes} bytes, the limit is {FRAME_BYTES_MAX}"),
        )),
    }
}

/// Reads the body of a request and checks its limits; nothing may follow it.
///
/// # Errors
/// `Malformed` as [`decode_body`], and what [`Request::check`] refuses.
pub fn decode_request<'a, R: Request + Deserialize<'a>>(body: &'a [u8]) -> Result<R, WireError> {
    let (request, rest) = take_message::<R>(body)?;
    // Before the rest is looked at: a list above its limit is not read to its end.
    request.check()?;
    check_end(rest)?;
    Ok(request)
}

/// Reads a body; nothing may follow it. A request is read by [`decode_request`] instead.
///
/// # Errors
/// `Malformed` if the bytes are not such a message or more than one.
pub fn decode_body<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    let (message, rest) = take_message(body)?;
    check_end(rest)?;
    Ok(message)
}

fn take_message<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<(T, &'a [u8]), WireError> {
    postcard::take_from_bytes(body).map_err(|error| {
        let text = match error {
            postcard::Error::DeserializeUnexpectedEnd => "the body ends too early",
            postcard::Error::DeserializeBadUtf8 => "a text is not in utf-8",
            _ => "the body is not the message that its kind announces",
        };
        WireError::new(ErrorCode::Malformed, text)
    })
}

fn check_end(rest: &[u8]) -> Result<(), WireError> {
    if rest.is_empty() {
        return Ok(());
    }
    let text = format!("{} bytes follow the message", rest.len());
    Err(WireError::new(ErrorCode::Malformed, text))
}

/// Room for the reply to some dozens of keys, before its length is known.
const FIRST_CAPACITY_BYTES: usize = 1 << 10;

/// Longest text of an error, in bytes; enough for a sentence with two names in it.
const ERROR_TEXT_BYTES_MAX: usize = 4096;
