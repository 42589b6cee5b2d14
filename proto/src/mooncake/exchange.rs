//! Whole frames: requests and replies, written and read at both ends.

use super::body::{Form, append_body, decode_body};
use super::error_code::RpcError;
use super::fault::Fault;
use super::framing::{REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader, RequestHeader};
use super::functions::Request;
use super::pack::{Pack, Shape};
use super::values::Str;

/// A body that its header cannot name the length of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a body of {bytes} bytes, the limit is {}", u32::MAX)]
pub struct TooLarge {
    /// Bytes of the body.
    pub bytes: usize,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The master refused the call as a whole.
    #[error("the call failed: {code}: {message}")]
    Rpc {
        /// Why.
        code: RpcError,
        /// The same as a text.
        message: String,
    },
    /// The reply is not what the function answers.
    #[error("the reply cannot be read: {0}")]
    Body(#[from] Fault),
}

/// Writes a request with its header to the end of `out`.
///
/// # Errors
/// [`TooLarge`] for a body of 4 GiB; `out` is as it was.
pub fn append_request<R: Request>(
    out: &mut Vec<u8>,
    seq: u32,
    request: &R,
    form: Form,
) -> Result<(), TooLarge> {
    append_framed::<REQUEST_HEADER_BYTES>(
        out,
        |out| append_body(out, request, form),
        |body_bytes| {
            RequestHeader { seq, function_id: R::ID, body_bytes, attachment_bytes: 0 }.encode()
        },
    )
}

/// Writes the result of the function `R` with its header to the end of `out`. The result may be of
/// any type with the shape of the function's reply: slices, [`Each`](super::Each), references. A
/// type of another shape does not compile.
///
/// # Errors
/// [`TooLarge`] for a body of 4 GiB; `out` is as it was.
pub fn append_reply<R: Request, T: Pack + ?Sized>(
    out: &mut Vec<u8>,
    seq: u32,
    result: &T,
    form: Form,
) -> Result<(), TooLarge> {
    const {
        assert!(
            T::CODE == <R::Reply<'static> as Shape>::CODE,
            "the result has not the shape of the function's reply"
        );
    }
    append_framed::<REPLY_HEADER_BYTES>(
        out,
        |out| append_body(out, result, form),
        |body_bytes| ReplyHeader { error: 0, seq, body_bytes, attachment_bytes: 0 }.encode(),
    )
}

/// The frame that refuses a call as a whole. Its client then closes the connection; ordinary
/// refusals are results. The text is cut at 4 KiB.
pub fn reply_error(seq: u32, code: RpcError, message: &str) -> Vec<u8> {
    let text = Str::from(&message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]);
    let mut frame = Vec::new();
    let error = match u8::try_from(code.0) {
        Ok(error) if error != CODE_IN_BODY => error,
        _ => CODE_IN_BODY,
    };
    append_framed::<REPLY_HEADER_BYTES>(
        &mut frame,
        |out| match error {
            CODE_IN_BODY => append_body(out, &(code.0, text), Form::Plain),
            _ => append_body(out, &text, Form::Plain),
        },
        |body_bytes| ReplyHeader { error, seq, body_bytes, attachment_bytes: 0 }.encode(),
    )
    .expect("the text was cut far below the limit");
    frame
}

/// Reads the reply to a request of type `R`.
///
/// # Errors
/// `Rpc` if the master refused the call, `Body` if the body is not what the header announces.
pub fn decode_reply<'r, R: Request>(
    header: &ReplyHeader,
    body: &'r [u8],
) -> Result<R::Reply<'r>, ReplyError> {
    let (code, message) = match header.error {
        0 => return Ok(decode_body(body)?),
        CODE_IN_BODY => decode_body::<(u16, Str<'_>)>(body)?,
        code => (u16::from(code), decode_body(body)?),
    };
    Err(ReplyError::Rpc { code: RpcError(code), message: message.to_string() })
}

/// The error byte of a reply whose code is in the body, because it is larger than a byte.
const CODE_IN_BODY: u8 = 255;

/// Longest text of an error, in bytes; enough for a sentence with two types in it.
const MESSAGE_BYTES_MAX: usize = 4096;

fn append_framed<const HEADER_BYTES: usize>(
    out: &mut Vec<u8>,
    append: impl FnOnce(&mut Vec<u8>),
    header: impl FnOnce(u32) -> [u8; HEADER_BYTES],
) -> Result<(), TooLarge> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let body_start = out.len();
    append(out);
    let bytes = out.len() - body_start;
    let Ok(body_bytes) = u32::try_from(bytes) else {
        out.truncate(start);
        return Err(TooLarge { bytes });
    };
    out[start..body_start].copy_from_slice(&header(body_bytes));
    Ok(())
}
