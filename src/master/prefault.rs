//! Memory that is used next, taken from the system many pages at a time.
//!
//! A restore touches gigabytes for the first time. Each first touch of a page is a fault, and together
//! they take a quarter of its time; asked for many pages at once, the system gives them in two thirds of
//! that.

use rustix::mm::{Advice, madvise};

/// Keeps the free memory of the allocator a little ahead of a thread that fills large pieces of it.
#[derive(Debug, Default)]
pub(super) struct Prefault {
    /// What the thread has used since the last block.
    due_bytes: usize,
}

impl Prefault {
    /// The thread that calls this is about to use so many bytes more, of pieces that are smaller than a
    /// block. A wrong guess costs time or a block, and nothing else.
    #[inline]
    pub(super) fn expect(&mut self, bytes: usize) {
        self.due_bytes += bytes;
        if self.due_bytes >= BLOCK_BYTES {
            self.due_bytes -= BLOCK_BYTES;
            fetch_block();
        }
    }
}

/// Makes a block resident and frees it: the allocator keeps what was freed for a while, and gives it
/// out before it takes fresh memory.
#[cold]
fn fetch_block() {
    // Others may return it to the system at once, and the pages would be lost.
    if !cfg!(feature = "jemalloc") {
        return;
    }
    let mut block = Vec::<u8>::with_capacity(BLOCK_BYTES);
    let room = block.spare_capacity_mut();
    let margin = room.as_ptr().align_offset(PAGE_BYTES).min(room.len());
    let pages = &mut room[margin..];
    let length = pages.len() / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: these are whole pages of a block that nobody else has, and the advice changes no content.
    // A kernel that does not know it refuses, and the pages come one by one.
    let _ = unsafe { madvise(pages.as_mut_ptr().cast(), length, Advice::LinuxPopulateWrite) };
}

/// Several of the pieces that it is cut into, and little for a machine whose memory is short.
const BLOCK_BYTES: usize = 1 << 20;

/// The smallest page of the machines that a master runs on. The system refuses where pages are larger
/// and the block does not begin with one.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_comes_a_block_at_a_time() {
        let mut prefault = Prefault::default();
        for _ in 0..3 {
            prefault.expect(BLOCK_BYTES / 2);
        }
        assert_eq!(prefault.due_bytes, BLOCK_BYTES / 2);
    }
}
