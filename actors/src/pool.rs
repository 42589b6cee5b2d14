//! The pool actor.

pub mod message;
