//! The functions that a master of Mooncake offers.
//!
//! All 64 of release 0.3.13, and of 0.3.14 those that take the place of one of them. The tables of
//! ids and codes follow from the declarations.

mod declare;
mod table;

pub use table::*;

use super::body::{readable, type_mismatch};
use super::error_code::RpcError;
use super::fault::Fault;
use super::pack::{Pack, Unpack};

/// A request type: the arguments of one form of one function.
pub trait Request: Pack {
    /// The function.
    const FUNCTION: Function;

    /// Its id on the wire: the first bytes of the MD5 sum of its qualified name in Mooncake.
    const ID: u32;

    /// Its result.
    type Reply<'r>: Pack + Unpack<'r>;
}

/// Why a request cannot be served. The connection stays usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No function has this id.
    #[error("no function has the id {id:08x}")]
    UnknownFunction {
        /// The id.
        id: u32,
    },
    /// The body is not what the function takes.
    #[error("{}: {fault}", .function.name())]
    Arguments {
        /// The function.
        function: Function,
        /// What is wrong with the body.
        fault: Fault,
    },
}

impl CallError {
    /// The code to answer with.
    pub fn rpc_error(&self) -> RpcError {
        match self {
            CallError::UnknownFunction { .. } => RpcError::FUNCTION_NOT_REGISTERED,
            CallError::Arguments { .. } => RpcError::INVALID_RPC_ARGUMENTS,
        }
    }
}

/// The error for a request that matches no function in both id and arguments.
fn unmatched(function_id: u32, body: &[u8]) -> CallError {
    let forms = || Function::ALL.iter().filter(|function| function.id() == function_id);
    let Some(function) = forms().next() else {
        return CallError::UnknownFunction { id: function_id };
    };
    let expected: Vec<String> =
        forms().map(|function| readable(function.argument_literal())).collect();
    let fault = type_mismatch(body, expected.join(" or "));
    CallError::Arguments { function: *function, fault }
}
