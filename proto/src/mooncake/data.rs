//! The types that functions take and answer, in the fields and the order of Mooncake 0.3.13.
//!
//! Release 0.3.14 appends members that older peers do not see: they stand behind the value, do not
//! count in its type, and are not read here. None is ever sent.

mod object;
mod probe;
mod segment;
mod task;

pub use object::*;
pub use probe::*;
pub use segment::*;
pub use task::*;
