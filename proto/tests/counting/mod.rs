//! An allocator that counts, for tests of what bytes of a peer cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// What `work` returns, and the most bytes that it had allocated at any moment.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    (result, PEAK_BYTES.get().saturating_sub(before))
}

/// Counts what each thread allocates.
struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; the counting beside it
// allocates nothing, since the counters are constants of plain type without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_add(layout.size()));
        PEAK_BYTES.set(PEAK_BYTES.get().max(LIVE_BYTES.get()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // Far from zero, so that a thread that frees what another one allocated does not wrap.
    static LIVE_BYTES: Cell<usize> = const { Cell::new(1 << 40) };
    static PEAK_BYTES: Cell<usize> = const { Cell::new(0) };
}
