//! The allocator of the process.
//!
//! The master holds tens of millions of small facts in few large allocations and lives for months,
//! so what counts is that memory stays flat and goes back to the system, not how fast a small
//! allocation is.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The settings, read by jemalloc before the first allocation; `MALLOC_CONF` has no say in a
/// prefixed build, but `_RJEM_MALLOC_CONF` in the environment overrides each of them.
///
/// - `background_thread:true`: unused pages go back even while nothing is allocated or freed, as
///   after a large removal on a quiet system.
/// - `dirty_decay_ms:5000`: pages that are used again within seconds are not given back and faulted
///   in again for each batch; after a peak, memory falls within the half minute.
/// - `muzzy_decay_ms:0`: no state between used and given back, so that resident memory is what
///   is in use.
/// - `narenas:4`: each arena keeps free pages and half-filled runs of its own. Few allocations are
///   made for each request, and large ones, so that contention costs less than those.
/// - `metadata_thp:disabled`: metadata is small here, and a huge page for each arena would not be.
// SAFETY: the name is the one that the prefixed jemalloc defines as a weak symbol of the type
// `const char *`. A thin reference to bytes that end with zero is such a pointer, and nobody else
// in the program defines the symbol.
#[cfg(feature = "jemalloc")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; SETTINGS_TEXT.len()] = SETTINGS_TEXT;

#[cfg(feature = "jemalloc")]
const SETTINGS_TEXT: &[u8; 92] =
    b"background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:0,narenas:4,\
      metadata_thp:disabled\0";

/// What the allocator keeps, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllocatorBytes {
    /// In allocations of the program.
    pub(crate) allocated: u64,
    /// In pages that have such allocations.
    pub(crate) active: u64,
    /// Of its own bookkeeping.
    pub(crate) metadata: u64,
    /// In pages that the system has to back.
    pub(crate) resident: u64,
    /// In addresses that are kept for later, without memory behind them.
    pub(crate) retained: u64,
}

/// The figures as of now; `None` with the allocator of the system, which has none.
#[cfg(feature = "jemalloc")]
pub(crate) fn bytes() -> Option<AllocatorBytes> {
    use tikv_jemalloc_ctl::{epoch, stats};
    // The figures are copies that are only made when they are asked for.
    epoch::advance().ok()?;
    let read = |figure: tikv_jemalloc_ctl::Result<usize>| figure.ok().map(|bytes| bytes as u64);
    Some(AllocatorBytes {
        allocated: read(stats::allocated::read())?,
        active: read(stats::active::read())?,
        metadata: read(stats::metadata::read())?,
        resident: read(stats::resident::read())?,
        retained: read(stats::retained::read())?,
    })
}

/// The figures as of now; `None` with the allocator of the system, which has none.
#[cfg(not(feature = "jemalloc"))]
pub(crate) fn bytes() -> Option<AllocatorBytes> {
    None
}

#[cfg(all(test, feature = "jemalloc"))]
mod tests {
    use tikv_jemalloc_ctl::{opt, raw};

    #[test]
    fn what_is_allocated_shows_in_the_figures() {
        let before = super::bytes().unwrap();
        let block = vec![7_u8; 64 << 20];
        let after = super::bytes().unwrap();
        assert!(after.allocated >= before.allocated + (32 << 20), "{before:?} and {after:?}");
        assert!(after.active >= after.allocated && block.len() == 64 << 20);
    }

    #[test]
    fn the_settings_reach_the_allocator() {
        assert!(opt::background_thread::read().unwrap());
        assert_eq!(opt::narenas::read().unwrap(), 4);
        // SAFETY: the names end with zero and are of options whose type is `ssize_t`.
        let decay_ms: [isize; 2] = unsafe {
            [
                raw::read(b"opt.dirty_decay_ms\0").unwrap(),
                raw::read(b"opt.muzzy_decay_ms\0").unwrap(),
            ]
        };
        assert_eq!(decay_ms, [5000, 0]);
    }
}
