//! A span that has ended, as plain data.

use std::borrow::Cow;
use std::time::Instant;

use mooring_proto::frame::TraceContext;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    /// Its trace, and itself.
    pub(crate) context: TraceContext,
    /// The span that it is below of; `None` for the first one of a trace.
    pub(crate) parent: Option<[u8; 8]>,
    /// What was done.
    pub(crate) name: Cow<'static, str>,
    /// Where it stands to the other process, if there is one.
    pub(crate) side: Side,
    /// When it began.
    pub(crate) began: Instant,
    /// When it ended.
    pub(crate) ended: Instant,
    /// What is known of it.
    pub(crate) attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that it has to do with.
    pub(crate) links: Vec<TraceContext>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<Cow<'static, str>>,
}

/// Where a span stands to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It is within this process.
    Inner,
    /// It answers a request of another process.
    Server,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number.
    Number(u64),
    /// A text.
    Text(Cow<'static, str>),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as u64)
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Value {
        Value::Number(number.into())
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text.into())
    }
}

impl Span {
    /// A span without anything known of it.
    pub(crate) fn new(
        context: TraceContext,
        parent: Option<[u8; 8]>,
        name: impl Into<Cow<'static, str>>,
        began: Instant,
        ended: Instant,
    ) -> Span {
        Span {
            context,
            parent,
            name: name.into(),
            side: Side::Inner,
            began,
            ended: ended.max(began),
            attributes: Vec::new(),
            links: Vec::new(),
            failure: None,
        }
    }
}
