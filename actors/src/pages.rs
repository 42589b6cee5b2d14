//! Runs of pages: the currency in which the pool grants memory to shards and takes it back.

/// Consecutive pages of one segment.
///
/// A page's size belongs to the segment and isn't stored here. Page numbers count from the start
/// of the segment. `first_page + pages` never exceeds `u32::MAX`: at the largest page of 64 KiB
/// that is 256 TiB, more than a segment can have.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageRun {
    /// The first page of the run.
    pub first_page: u32,
    /// How many pages the run has.
    pub pages: u32,
}

impl PageRun {
    /// The run of `pages` pages from `first_page` on.
    #[must_use]
    pub const fn new(first_page: u32, pages: u32) -> Self {
        Self { first_page, pages }
    }

    /// The run from `first_page` up to but without `end`; empty if `end` isn't above `first_page`.
    #[must_use]
    pub const fn between(first_page: u32, end: u32) -> Self {
        Self { first_page, pages: end.saturating_sub(first_page) }
    }

    /// The page after the last.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.first_page + self.pages
    }

    /// Whether the run has no pages.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.pages == 0
    }

    /// Whether every page of `other` is also in this run. An empty run is contained where it lies.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.first_page <= other.first_page && other.end() <= self.end()
    }

    /// Whether `page` is in this run.
    #[must_use]
    pub const fn contains_page(self, page: u32) -> bool {
        self.first_page <= page && page < self.end()
    }

    /// Whether the two runs have at least one page in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.intersection(other).is_some()
    }

    /// The pages that are in both runs, or nothing if there are none.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Option<Self> {
        let first_page =
            if self.first_page > other.first_page { self.first_page } else { other.first_page };
        let end = if self.end() < other.end() { self.end() } else { other.end() };
        let common = Self::between(first_page, end);
        if common.is_empty() { None } else { Some(common) }
    }

    /// Bytes in the run, given the page size of its segment in bytes.
    #[must_use]
    pub const fn bytes(self, page_bytes: u32) -> u64 {
        self.pages as u64 * page_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::PageRun;

    #[test]
    fn runs_that_only_touch_do_not_overlap() {
        let left = PageRun::new(2, 3);
        let right = PageRun::new(5, 1);
        assert_eq!(left.end(), right.first_page);
        assert!(!left.overlaps(right));
        assert!(!right.overlaps(left));
    }

    #[test]
    fn the_intersection_is_the_common_part() {
        let wide = PageRun::new(10, 10);
        assert_eq!(wide.intersection(PageRun::new(15, 20)), Some(PageRun::new(15, 5)));
        assert_eq!(wide.intersection(PageRun::new(0, 11)), Some(PageRun::new(10, 1)));
        assert_eq!(wide.intersection(PageRun::new(12, 2)), Some(PageRun::new(12, 2)));
        assert_eq!(wide.intersection(PageRun::new(20, 2)), None);
    }

    #[test]
    fn a_run_contains_itself_and_its_parts_only() {
        let run = PageRun::new(4, 4);
        assert!(run.contains(run));
        assert!(run.contains(PageRun::new(5, 3)));
        assert!(!run.contains(PageRun::new(3, 2)));
        assert!(!run.contains(PageRun::new(7, 2)));
        assert!(run.contains_page(7));
        assert!(!run.contains_page(8));
    }

    #[test]
    fn bytes_do_not_overflow_at_the_largest_run() {
        assert_eq!(PageRun::new(0, u32::MAX).bytes(1 << 16), u64::from(u32::MAX) << 16);
    }
}
