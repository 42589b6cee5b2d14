//! Writing a reply to its stream.

use std::time::Duration;

use bytes::Bytes;
use mooring_proto::close;
use mooring_proto::limits::REPLY_WRITE_TIMEOUT_MS;
use quinn::{SendStream, VarInt};

/// How a reply went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is on its way.
    Sent,
    /// The peer has given it up or is gone.
    Cancelled,
    /// The peer did not take it in time; the stream is reset.
    TimedOut,
}

/// Writes a reply and ends the stream.
pub(crate) async fn write(stream: &mut SendStream, frame: Vec<u8>) -> Written {
    let in_time = Duration::from_millis(REPLY_WRITE_TIMEOUT_MS);
    let written = tokio::time::timeout(in_time, stream.write_chunk(Bytes::from(frame))).await;
    match written {
        Ok(Ok(())) => match stream.finish() {
            Ok(()) => Written::Sent,
            Err(_) => Written::Cancelled,
        },
        Ok(Err(_)) => Written::Cancelled,
        Err(_) => {
            // An error says that the stream has ended already.
            let _ = stream.reset(VarInt::from_u32(close::TIMEOUT));
            Written::TimedOut
        }
    }
}
