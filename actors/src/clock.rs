//! The clock of the shells. Nothing that decides reads it: it stamps messages.

use crate::moment::Moment;

/// Monotonic time since the process started. Follows tokio's clock, so a test that pauses tokio's
/// time steps this one too.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { start: tokio::time::Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        Moment::from_ms(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
