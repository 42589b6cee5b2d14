//! The randomness of a client: for ids that no other process picks, and for pauses and choices in
//! which clients shall differ.

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A generator that the kernel has seeded.
#[cfg(not(feature = "seeded"))]
pub(super) fn source() -> SmallRng {
    SmallRng::from_os_rng()
}

/// A generator that the kernel has seeded, or this thread's own one where it has a seed.
#[cfg(feature = "seeded")]
pub(super) fn source() -> SmallRng {
    seeded::source().unwrap_or_else(SmallRng::from_os_rng)
}

/// A value that no other process picks, from the kernel's randomness.
pub(super) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    source().random()
}

#[cfg(feature = "seeded")]
pub(super) mod seeded {
    use std::cell::RefCell;

    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    thread_local! {
        static OF_THREAD: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
    }

    /// From now on, what clients draw on this thread follows from the seed. For simulations in one
    /// thread: ids of clients are no longer unlike those of others.
    pub fn seed_thread(seed: u64) {
        OF_THREAD.set(Some(SmallRng::seed_from_u64(seed)));
    }

    pub(super) fn source() -> Option<SmallRng> {
        OF_THREAD.with_borrow_mut(|kept| kept.as_mut().map(SmallRng::from_rng))
    }
}
