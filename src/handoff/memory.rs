//! Whether a snapshot would fit the memory of the master that restores it.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::Totals;
use super::reason::{Cause, Reason};

/// The memory that a restore may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// What there is for it, in bytes.
    pub(crate) available_bytes: u64,
    /// What is added to the estimate, in percent of it.
    pub(crate) margin_percent: u32,
}

impl Admission {
    /// Whether these would fit.
    ///
    /// # Errors
    /// The reason `memory`, with both figures.
    pub(crate) fn check(&self, totals: &Totals) -> Result<(), Cause> {
        let needed_bytes = estimate_bytes(totals, self.margin_percent);
        if needed_bytes <= self.available_bytes {
            return Ok(());
        }
        let detail = format!(
            "the restore would need {needed_bytes} bytes of memory, there are {}",
            self.available_bytes
        );
        Err(Cause::new(Reason::Memory, detail))
    }
}

/// The most memory that a master has while it restores, in bytes.
pub(crate) fn estimate_bytes(totals: &Totals, margin_percent: u32) -> u64 {
    let parts = [
        (totals.objects, OBJECT_BYTES),
        (totals.replicas, REPLICA_BYTES),
        (totals.holds, HOLD_BYTES),
        (totals.key_bytes, 1),
    ];
    let sum = parts
        .into_iter()
        .map(|(count, each)| u128::from(count) * u128::from(each))
        .fold(u128::from(PROCESS_BYTES), |sum, part| sum + part);
    let with_margin = sum * (100 + u128::from(margin_percent)) / 100;
    u64::try_from(with_margin).unwrap_or(u64::MAX)
}

/// What this process may still take, in bytes: the least of what its memory cgroups and the machine
/// have left. None if the system tells neither.
pub(crate) fn available_bytes() -> Option<u64> {
    available_in(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// What the next process may take once this one is gone, in bytes, if it runs under the same limits.
pub(crate) fn available_after_exit_bytes() -> Option<u64> {
    let own_bytes = resident_in(Path::new("/proc")).unwrap_or(0);
    available_bytes().map(|available_bytes| available_bytes.saturating_add(own_bytes))
}

fn available_in(proc: &Path, cgroups: &Path) -> Option<u64> {
    let groups = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| of_hierarchy(line, cgroups));
    of_groups.chain(of_machine(proc)).min()
}

fn of_machine(proc: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that is left in a group or one above it. A line is `number:controllers:path`.
fn of_hierarchy(line: &str, cgroups: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (mount, files) = if controllers.is_empty() {
        // Beside the first version, the second one is mounted below.
        let hybrid = cgroups.join("unified");
        (if hybrid.is_dir() { hybrid } else { cgroups.to_owned() }, &VERSION_2)
    } else if controllers.split(',').any(|controller| controller == "memory") {
        (cgroups.join("memory"), &VERSION_1)
    } else {
        return None;
    };
    // In a namespace of its own a group may be shown by a path that is not mounted there; the mount
    // is then the group itself.
    let group = mount.join(path.trim_start_matches('/'));
    let mut group: PathBuf = if group.is_dir() { group } else { mount.clone() };
    let mut least = None;
    loop {
        least = least.into_iter().chain(of_group(&group, files)).min();
        if group == mount || !group.pop() || !group.starts_with(&mount) {
            return least;
        }
    }
}

/// What the files of a version are called.
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// Pages of files that the system gives up before it refuses memory; those of tmpfs are not
    /// among them.
    reclaimable: [&'static str; 2],
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: ["total_inactive_file", "total_active_file"],
};

const VERSION_2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: ["inactive_file", "active_file"],
};

fn of_group(group: &Path, files: &Files) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
    };
    // Without a limit the second version says `max`, which is no number.
    let limit_bytes = number(files.limit)?;
    let usage_bytes = number(files.usage)?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let reclaimable_bytes: u64 = statistics
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| files.reclaimable.contains(name))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add);
    Some(limit_bytes.saturating_sub(usage_bytes.saturating_sub(reclaimable_bytes)))
}

fn resident_in(proc: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("self/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// What an object with one replica takes beside its key: index, ranges and the room to grow of
/// both. A restore of 12 million objects with 96-byte keys in one shard had 2,223 MB at its peak:
/// 185 bytes each with the process, so 89 beside the key. The rest is for other sizes of the index.
const OBJECT_BYTES: u64 = 128;

/// A range of a further replica and its place in a side table.
const REPLICA_BYTES: u64 = 64;

/// A held range.
const HOLD_BYTES: u64 = 96;

/// The process without any object, with the buffers of its readers.
const PROCESS_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests;
