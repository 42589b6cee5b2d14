//! The port for clients of Mooncake beside Mooncake's own master and Mooncake's own client.
//!
//! * `differential`: generated sequences of calls go to both masters, and their answers are compared.
//! * `live`: the unmodified client of Python's package stores and reads through the binary.
//!
//! Both need that package, which the tests do not fetch: `MOORING_MOONCAKE_MASTER` names its
//! `mooncake_master` and `MOORING_MOONCAKE_PYTHON` a Python that has it. Without them a test says
//! that it was skipped, and passes. `.ci/interop` sets both.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says where it failed")]

use std::fmt::Display;
use std::io::Write;

mod answers;
mod compare;
mod differences;
mod differential;
mod expressions;
mod generate;
mod live;
mod lockstep;
mod masters;
mod pressure;
mod ranges;

#[allow(dead_code, reason = "the end-to-end tests use more of it")]
#[path = "../e2e/harness.rs"]
mod harness;

#[allow(dead_code, reason = "the end-to-end tests use more of it")]
#[path = "../e2e/mooncake/client.rs"]
mod client;

/// Tells something about a test that passes: what was skipped or compared. Past the test's captured
/// output, which nobody sees.
fn tell(test: &str, what: impl Display) {
    let line = format!("{test}: {what}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
