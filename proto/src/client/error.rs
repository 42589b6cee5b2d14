//! Why a call of the client failed.

use quinn::{ConnectionError, ReadError, ReadExactError, ReadToEndError};

use crate::close;
use crate::error::{ErrorCode, Refusal, WireError};

/// Why a call failed. Each is cheap to clone, since one lost connection fails many calls.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The peer refused the whole request.
    #[error("{0}")]
    Refused(WireError),
    /// The master refused the one item that the call was about.
    #[error("{0}")]
    Item(Refusal),
    /// No address of the peer could be reached.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The peer, as it was configured.
        address: String,
        /// What went wrong with the address that came furthest.
        reason: String,
    },
    /// The connection, or the stream of the request, ended before the answer came. The request may
    /// or may not have been carried out.
    #[error("the connection was closed: {}", describe_close(*code, reason))]
    Closed {
        /// One of [`crate::close`] if the peer closed it on purpose.
        code: Option<u64>,
        /// What the peer or the transport said.
        reason: String,
    },
    /// No answer in time. The request may or may not have been carried out.
    #[error("{what} timed out{}", describe_last(last.as_deref()))]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// Why the attempts before failed, if there were any.
        last: Option<Box<ClientError>>,
    },
    /// The peer sent something that the protocol does not allow.
    #[error("protocol violation by the peer: {0}")]
    Protocol(String),
    /// Certificates or keys cannot be used, or one end does not trust the other.
    #[error("tls: {0}")]
    Tls(String),
    /// No replica of the object could be read, or not every replica of the put be written.
    #[error("no usable replica: {last}")]
    NoReplica {
        /// What the last one failed with.
        last: Box<ClientError>,
    },
    /// The lease ran out before the read ended, and the object had changed by then, again and
    /// again.
    #[error("the lease ran out before the read ended, and the object changed meanwhile")]
    LeaseExpired,
    /// The object is larger than the client takes into memory.
    #[error("an object of {size_bytes} bytes, the client takes at most {limit_bytes}")]
    TooLarge {
        /// The size of the object.
        size_bytes: u64,
        /// The limit of the configuration.
        limit_bytes: u64,
    },
    /// The client was closed.
    #[error("the client was closed")]
    Ended,
    /// A field of the configuration is out of its range; the text names it.
    #[error("client configuration: {0}")]
    Config(String),
}

impl ClientError {
    /// The code of a refusal, of the whole request or of its one item.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused(error) => Some(error.code),
            ClientError::Item(refusal) => Some(refusal.code),
            ClientError::NoReplica { last } => last.code(),
            _ => None,
        }
    }

    /// Whether connecting again is of no use.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            ClientError::Refused(error) => {
                matches!(error.code, ErrorCode::UnsupportedVersion | ErrorCode::Forbidden)
            }
            ClientError::Closed { code: Some(code), .. } => {
                [close::VERSION, close::FORBIDDEN].iter().any(|closed| u64::from(*closed) == *code)
            }
            ClientError::Config(_) => true,
            _ => false,
        }
    }

    /// Whether the same request may succeed later, and the hint of the peer when.
    pub(super) fn retry(&self) -> Option<RetryHint> {
        match self {
            ClientError::Refused(error) => {
                is_transient(error.code).then_some(RetryHint { after_ms: error.retry_after_ms })
            }
            ClientError::Closed { code, .. } => {
                let futile = self.is_permanent() || *code == Some(u64::from(close::PROTOCOL));
                (!futile).then_some(RetryHint { after_ms: None })
            }
            _ => None,
        }
    }

    pub(super) fn timeout(what: &'static str) -> ClientError {
        ClientError::Timeout { what, last: None }
    }
}

/// When to try again, in milliseconds from now, if the peer said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetryHint {
    pub(super) after_ms: Option<u32>,
}

/// Whether a peer that refused with this code was only not able to serve at that moment.
pub(super) fn is_transient(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Overloaded | ErrorCode::NotReady | ErrorCode::Restarting)
}

/// Whether a peer was not there, or went away before it answered.
pub(super) fn is_unanswered(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Connect { .. }
            | ClientError::Closed { .. }
            | ClientError::Timeout { .. }
            | ClientError::Tls(_)
    )
}

/// An exchange that failed, with what is known about its effect.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ClientError,
    /// Whether the peer may have carried the request out, or may still do so.
    pub(super) maybe_done: bool,
}

impl Failure {
    /// The peer answered, or never saw the request.
    pub(super) fn known(error: ClientError) -> Failure {
        Failure { error, maybe_done: false }
    }

    /// The request was sent and no answer came.
    pub(super) fn unknown(error: impl Into<ClientError>) -> Failure {
        Failure { error: error.into(), maybe_done: true }
    }
}

impl From<ConnectionError> for ClientError {
    fn from(error: ConnectionError) -> ClientError {
        match error {
            ConnectionError::ApplicationClosed(closed) => ClientError::Closed {
                code: Some(closed.error_code.into_inner()),
                reason: String::from_utf8_lossy(&closed.reason).into_owned(),
            },
            ConnectionError::ConnectionClosed(closed) if is_tls(closed.error_code.into()) => {
                let text = closed.to_string();
                ClientError::Tls(format!("refused by the peer: {text}{}", tls_hint(&text)))
            }
            ConnectionError::TransportError(error) if is_tls(error.code.into()) => {
                let text = error.to_string();
                ClientError::Tls(format!("{text}{}", tls_hint(&text)))
            }
            other => ClientError::Closed { code: None, reason: other.to_string() },
        }
    }
}

impl From<ReadError> for ClientError {
    fn from(error: ReadError) -> ClientError {
        match error {
            ReadError::ConnectionLost(lost) => lost.into(),
            ReadError::Reset(code) => ClientError::Closed {
                code: Some(code.into_inner()),
                reason: "the peer reset the stream".to_owned(),
            },
            other => ClientError::Closed { code: None, reason: other.to_string() },
        }
    }
}

impl From<ReadExactError> for ClientError {
    fn from(error: ReadExactError) -> ClientError {
        match error {
            ReadExactError::ReadError(error) => error.into(),
            ReadExactError::FinishedEarly(bytes) => {
                ClientError::Protocol(format!("the reply ends after {bytes} bytes of a part"))
            }
        }
    }
}

impl From<ReadToEndError> for ClientError {
    fn from(error: ReadToEndError) -> ClientError {
        match error {
            ReadToEndError::Read(error) => error.into(),
            ReadToEndError::TooLong => {
                ClientError::Protocol("the reply is above the limit of a frame".to_owned())
            }
        }
    }
}

/// What to do about a fault that the text of an error of TLS names, to stand behind it; empty if there
/// is nothing to say.
pub fn tls_hint(text: &str) -> &'static str {
    if text.contains("UnsupportedCertVersion") {
        return "; the certificate is X.509 version 1, and 3 is needed: `openssl x509 -req` makes \
                one if it is given -extfile with a line `subjectAltName=DNS:HOST`";
    }
    ""
}

fn is_tls(code: u64) -> bool {
    // QUIC carries the alerts of TLS in this range.
    (0x100..0x200).contains(&code)
}

fn describe_close(code: Option<u64>, reason: &str) -> String {
    match code {
        None => reason.to_owned(),
        Some(code) if reason.is_empty() => close::name_of(code).to_owned(),
        Some(code) => format!("{}: {reason}", close::name_of(code)),
    }
}

fn describe_last(last: Option<&ClientError>) -> String {
    last.map_or_else(String::new, |last| format!("; before that: {last}"))
}
