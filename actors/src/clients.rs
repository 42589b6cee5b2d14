//! The clients actor.
