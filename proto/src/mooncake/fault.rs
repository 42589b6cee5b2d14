//! Why bytes are not the value that they should be.

use std::fmt;

use super::pack::LIST_ITEMS_MAX;

/// Why a body could not be read, and in which field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub cause: Cause,
    /// The innermost field or parameter that it was found in, if it was in one.
    pub field: Option<&'static str>,
}

/// What is wrong with a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The type is another one: the peer is of a release with other messages.
    #[error(transparent)]
    Type(Box<TypeMismatch>),
    /// The body ends before what it announces.
    #[error("{needed} bytes are announced where {left} are left")]
    Short {
        /// Bytes that should follow, at least.
        needed: u64,
        /// Bytes that do.
        left: usize,
    },
    /// A boolean or a presence byte is neither zero nor one.
    #[error("the byte {byte:#04x} is neither zero nor one")]
    Flag {
        /// What it is.
        byte: u8,
    },
    /// A variant of a kind that does not exist.
    #[error("a variant of kind {index} where there are {kinds}")]
    Variant {
        /// The kind that was sent.
        index: u8,
        /// How many there are, counted from zero.
        kinds: usize,
    },
    /// A list above [`LIST_ITEMS_MAX`].
    #[error("a list of {count} items, the limit is {LIST_ITEMS_MAX}")]
    List {
        /// Items that were announced.
        count: usize,
    },
}

/// Two types that should have been one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The type that this end knows, spelled out; both, if the function has two forms.
    pub expected: String,
    /// The code that was sent.
    pub received_code: u32,
    /// The type that was sent, spelled out, if the peer sent its literal.
    pub received: Option<String>,
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the type has the code {:08x}", self.received_code)?;
        if let Some(received) = &self.received {
            write!(out, " and is {received}")?;
        }
        write!(out, "; expected is {}", self.expected)
    }
}

impl std::error::Error for TypeMismatch {}

impl Fault {
    /// The same fault, found in `field`; a field further inside keeps its name.
    #[must_use]
    pub fn in_field(mut self, field: &'static str) -> Fault {
        self.field.get_or_insert(field);
        self
    }
}

impl From<Cause> for Fault {
    fn from(cause: Cause) -> Fault {
        Fault { cause, field: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(out, "{field}: {}", self.cause),
            None => self.cause.fmt(out),
        }
    }
}

impl std::error::Error for Fault {}
