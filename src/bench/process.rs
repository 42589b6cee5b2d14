//! What a process has used, as the kernel tells it.

use std::fs;
use std::io;
use std::time::Duration;

/// The processor time and the memory of a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// In user space and in the kernel, of all threads since its start.
    pub(super) cpu: Duration,
    /// Its resident memory.
    pub(super) resident_bytes: u64,
}

impl Usage {
    /// Of the process with this id.
    ///
    /// # Errors
    /// If there is no such process, or the kernel tells something else than expected.
    pub(super) fn of(pid: u32) -> io::Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
        let ticks_per_s = rustix::param::clock_ticks_per_second();
        let page_bytes = rustix::param::page_size() as u64;
        parse(&stat, &statm, ticks_per_s, page_bytes)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat cannot be understood")))
    }

    /// Of this process.
    ///
    /// # Errors
    /// As [`Usage::of`].
    pub(super) fn own() -> io::Result<Usage> {
        Usage::of(std::process::id())
    }
}

fn parse(stat: &str, statm: &str, ticks_per_s: u64, page_bytes: u64) -> Option<Usage> {
    // The name of the process stands in parentheses, and may have blanks and parentheses itself.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(FIELDS_BEFORE_TIMES);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    let ticks = user.checked_add(system)?;
    let resident_pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(Usage {
        cpu: Duration::from_secs_f64(ticks as f64 / ticks_per_s as f64),
        resident_bytes: resident_pages.checked_mul(page_bytes)?,
    })
}

/// Fields between the name and the time in user space: that is the 14th, the name the second.
const FIELDS_BEFORE_TIMES: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_found_behind_any_name() {
        for name in ["mooring", "a b", "x) y (z", ")"] {
            let stat = format!("42 ({name}) S 1 42 42 0 -1 4194560 9 8 7 6 150 25 5 4 20 0 8 0 77");
            let usage = parse(&stat, "900 300 20 1 0 40 0\n", 100, 4096).unwrap();
            assert_eq!(usage.cpu, Duration::from_millis(1_750));
            assert_eq!(usage.resident_bytes, 300 * 4096);
        }
    }

    #[test]
    fn what_is_cut_off_is_no_usage() {
        assert_eq!(parse("42 (mooring) S 1 42", "1 2", 100, 4096), None);
        assert_eq!(parse("", "", 100, 4096), None);
    }

    #[test]
    fn this_process_uses_memory_and_one_that_is_not_there_is_an_error() {
        assert!(Usage::own().unwrap().resident_bytes > 0);
        assert!(Usage::of(u32::MAX).is_err());
    }
}
