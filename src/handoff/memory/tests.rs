use super::*;

struct System {
    scratch: tempfile::TempDir,
}

impl System {
    fn new(groups: &str, available_kib: u64) -> System {
        let system = System { scratch: tempfile::tempdir().unwrap() };
        system.write("proc/self/cgroup", groups);
        system
            .write("proc/meminfo", &format!("MemTotal: 9 kB\nMemAvailable:  {available_kib} kB\n"));
        system
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.scratch.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn available(&self) -> Option<u64> {
        available_in(&self.scratch.path().join("proc"), &self.scratch.path().join("cgroup"))
    }
}

#[test]
fn the_least_of_all_groups_above_counts() {
    let system = System::new("0::/pods/master\n", 1 << 20);
    system.write("cgroup/pods/master/memory.max", "max\n");
    system.write("cgroup/pods/master/memory.current", "100\n");
    system.write("cgroup/pods/memory.max", "5000\n");
    system.write("cgroup/pods/memory.current", "2000\n");
    assert_eq!(system.available(), Some(3000));
}

#[test]
fn pages_of_files_that_the_system_gives_up_do_not_count() {
    let system = System::new("0::/\n", 1 << 20);
    system.write("cgroup/memory.max", "5000\n");
    system.write("cgroup/memory.current", "4000\n");
    system.write("cgroup/memory.stat", "anon 700\ninactive_file 1500\nactive_file 500\n");
    assert_eq!(system.available(), Some(3000));
}

#[test]
fn the_first_version_is_understood_and_a_path_that_is_not_mounted_is_the_mount() {
    let system = System::new("5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n", 1 << 20);
    system.write("cgroup/memory/memory.limit_in_bytes", "9000\n");
    system.write("cgroup/memory/memory.usage_in_bytes", "4000\n");
    assert_eq!(system.available(), Some(5000));
}

#[test]
fn without_a_limit_the_machine_counts_and_without_that_nothing() {
    let system = System::new("0::/\n", 7);
    assert_eq!(system.available(), Some(7 * 1024));
    system.write("proc/meminfo", "");
    assert_eq!(system.available(), None);
}

#[test]
fn a_snapshot_is_admitted_up_to_the_last_byte() {
    let totals = Totals { objects: 1_000_000, key_bytes: 96_000_000, ..Totals::default() };
    let needed_bytes = estimate_bytes(&totals, 15);
    assert!(needed_bytes > 224_000_000 * 115 / 100);
    let admission = Admission { available_bytes: needed_bytes, margin_percent: 15 };
    assert_eq!(admission.check(&totals), Ok(()));
    let admission = Admission { available_bytes: needed_bytes - 1, margin_percent: 15 };
    assert_eq!(admission.check(&totals).unwrap_err().reason, Reason::Memory);
}

#[test]
fn counts_that_cannot_be_true_do_not_overflow() {
    let totals = Totals { objects: u64::MAX, key_bytes: u64::MAX, ..Totals::default() };
    assert_eq!(estimate_bytes(&totals, u32::MAX), u64::MAX);
}

#[test]
fn this_system_tells_what_it_has() {
    let available = available_bytes().unwrap();
    assert!(available > 0);
    assert!(available_after_exit_bytes().unwrap() > 0);
}
