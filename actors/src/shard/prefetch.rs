//! A hint to the processor, the one thing here that safe Rust can't say.

/// Asks the processor to load the cache line in which `value` begins. Changes nothing else; where
/// there is no such hint it does nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86_64 processor, reads no memory that a program
        // could observe and never faults; the address is that of a live reference besides.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast::<i8>()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
