//! The front end for unmodified clients of Mooncake, over their own TCP protocol.
//!
//! A listener accepts connections; each is one task that reads frames, answers them side by side and
//! writes the answers as they come. There is no hello, no token and no version beyond the release of
//! the messages, so what the protocol of Mooring fences with tokens goes by the id of the client here;
//! `TABLE.md` beside this file says for each function what works and what the difference is.
//!
//! Nothing is encrypted and nobody proves who he is: the port is for a trusted network.

mod clients;
mod connection;
mod counters;
mod dialect;
mod errors;
mod keys;
mod listener;
mod matching;
mod off;
mod order;
mod placement;
mod places;
mod probe;
mod reading;
mod removing;
mod router;
mod segments;
mod session;
mod socket;
mod writing;

pub(crate) use counters::{FunctionCounters, MooncakeCounters};
pub(crate) use listener::{MooncakeListener, MooncakeOptions};
pub(crate) use probe::probe;
pub(crate) use socket::bind;
