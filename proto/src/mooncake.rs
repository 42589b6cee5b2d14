//! The protocol of the existing Mooncake Store master, for clients that speak it.
//!
//! Its remote calls go over plain TCP in frames of `coro_rpc`, with bodies in the encoding of
//! `struct_pack`: no tags, no names, but a code of the whole type in front, which both ends
//! compare. This module is the codec alone, on buffers of bytes, for both ends; it has no socket.
//!
//! * [`split_request`] finds a frame, [`Call::decode`] reads it, [`append_reply`] answers it and
//!   [`reply_error`] refuses it.
//! * [`append_request`] and [`decode_reply`] are the same from the side of a client.
//! * A request borrows its keys from the frame; `Bytes::slice_ref` makes one of them outlive it.
//!
//! It speaks release 0.3.13 and understands 0.3.14. Members that 0.3.14 appends to messages stand
//! behind the value and are skipped; none is sent.
//!
//! Ids of functions and codes of types are computed by the compiler from the declarations in
//! [`functions`](Function) and in the types of the messages.

mod body;
mod data;
mod declare;
mod error_code;
mod exchange;
mod fault;
mod framing;
mod functions;
mod literal;
mod md5;
mod pack;
mod readable;
mod values;

pub use body::{Form, append_body, decode_body, readable_type_of, type_code_of};
pub use data::*;
pub use error_code::{ErrorCode, Expected, RpcError};
pub use exchange::{ReplyError, TooLarge, append_reply, append_request, decode_reply, reply_error};
pub use fault::{Cause, Fault, TypeMismatch};
pub use framing::{
    Frame, FramingError, MAGIC, REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader,
    RequestHeader, split_reply, split_request,
};
pub use functions::*;
pub use literal::Literal;
pub use pack::{LIST_ITEMS_MAX, Pack, Reader, Shape, Unpack, Width, Writer};
pub use readable::readable_type;
pub use values::{Each, Map, Str, Uuid};
