use super::super::given::{self, Line};
use super::*;

fn planned(arguments: &[&str]) -> Result<Plan, String> {
    let master = vec![("handoff_dir".to_owned(), false), ("dev".to_owned(), true)];
    let arguments: Vec<String> = arguments.iter().map(|&it| it.to_owned()).collect();
    let Line::Run(settings) = given::read(&arguments, &master).map_err(|it| it.to_string())? else {
        panic!("no settings but help");
    };
    plan(settings, &master).map_err(|error| {
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    })
}

const BY_DEFAULT: [&str; 5] = [
    "--mooncake-port=50051",
    "--rpc-port=50051",
    "--metrics-address=0.0.0.0",
    "--metrics-port=9003",
    "--summary-log-interval=10s",
];

#[test]
fn without_flags_the_ports_are_as_open_as_those_of_that_program() {
    let plan = planned(&[]).unwrap();
    assert_eq!((plan.flags, plan.ineffective), (BY_DEFAULT.map(str::to_owned).to_vec(), vec![]));
}

#[test]
fn every_mapped_flag_reaches_the_flag_of_the_master() {
    let given = [
        ("--rpc_port=7", "--mooncake-port=7"),
        ("--rpc_port=7", "--rpc-port=7"),
        ("--port=8", "--mooncake-port=8"),
        ("--rpc_address=10.0.0.1:50051", "--rpc-address=10.0.0.1"),
        ("--metrics_host=::", "--metrics-address=::"),
        ("--metrics_port=9", "--metrics-port=9"),
        ("--default_kv_lease_ttl=5s", "--default-kv-lease-ttl=5000ms"),
        ("--default_kv_lease_ttl=5000", "--default-kv-lease-ttl=5000ms"),
        ("--default_kv_soft_pin_ttl=1m", "--default-kv-soft-pin-ttl=60000ms"),
        ("--max_kv_soft_pin_ttl=7000", "--max-kv-soft-pin-ttl=7000ms"),
        ("--allocation_strategy=free_ratio_first", "--allocation-strategy=free-ratio-first"),
        ("--allocation_strategy=ssd_free_ratio_first", "--allocation-strategy=free-ratio-first"),
        ("--allocation_strategy=local_first", "--allocation-strategy=local-first"),
        ("--client_ttl=60", "--client-ttl=60s"),
        ("--put_start_discard_timeout_sec=3", "--put-start-discard-timeout-sec=3s"),
        ("--put_start_release_timeout_sec=4", "--put-start-release-timeout-sec=4s"),
        ("--eviction_high_watermark_ratio=1.0", "--eviction-high-watermark-ratio=1"),
        ("--eviction_ratio=0.1", "--eviction-ratio=0.1"),
        ("--enable_metric_reporting", "--summary-log-interval=10s"),
        ("--enable_http_metadata_server", "--enable-http-metadata-server"),
        ("--enable_http_metadata_server", "--http-metadata-server-host=0.0.0.0"),
        ("--enable_http_metadata_server", "--http-metadata-server-port=8080"),
    ];
    for (flag, expected) in given {
        let plan = planned(&[flag]).unwrap();
        assert!(plan.flags.iter().any(|it| it == expected), "{flag}: {:?}", plan.flags);
        assert_eq!(plan.ineffective, Vec::<String>::new(), "{flag}");
    }
    let mapped = flags::FLAGS.iter().filter(|flag| flag.fate == Fate::Mapped);
    for flag in mapped.filter(|flag| flag.name != "config_path") {
        let tested = given.iter().any(|(text, _)| text[2..].split('=').next() == Some(flag.name));
        let with_the_store = flag.name.starts_with("http_metadata_server_");
        assert!(tested || with_the_store, "{} is mapped and not tested", flag.name);
    }
}

#[test]
fn without_reporting_nothing_is_logged_from_time_to_time() {
    let plan = planned(&["--noenable_metric_reporting"]).unwrap();
    assert!(!plan.flags.iter().any(|flag| flag.contains("summary")), "{:?}", plan.flags);
}

#[test]
fn the_older_name_of_the_port_counts_only_beside_zero() {
    assert_eq!(planned(&["--port=8", "--rpc_port=7"]).unwrap().flags[0], "--mooncake-port=7");
    assert_eq!(planned(&["--port=8", "--rpc_port=0"]).unwrap().flags[0], "--mooncake-port=8");
}

#[test]
fn the_last_of_two_settings_counts_and_any_goes_before_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master.yaml");
    std::fs::write(&path, "rpc_port: 1\nmetrics_port: 2\nsome_key: 3\nmax_threads: 4\n").unwrap();
    let file = format!("--config_path={}", path.display());
    for arguments in
        [["--rpc_port=5", "--rpc_port=6", &file], [&file, "--rpc_port=5", "--rpc_port=6"]]
    {
        let plan = planned(&arguments).unwrap();
        assert_eq!(plan.flags[0], "--mooncake-port=6");
        assert!(plan.flags.contains(&"--metrics-port=2".to_owned()));
        assert_eq!(plan.ineffective, ["max_threads", "some_key (unknown)"]);
    }
}

#[test]
fn flags_of_the_master_alone_may_stand_in_the_file_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master.yaml");
    std::fs::write(&path, "handoff_dir: /dev/shm/x\ndev: true\nrpc_prt: 5\n").unwrap();
    let plan = planned(&[&format!("--config_path={}", path.display())]).unwrap();
    for flag in ["--handoff-dir=/dev/shm/x", "--dev"] {
        assert!(plan.flags.iter().any(|it| it == flag), "{:?}", plan.flags);
    }
    assert_eq!(plan.ineffective, ["rpc_prt (unknown)"]);
}

#[test]
fn flags_without_effect_are_named_once() {
    let plan = planned(&["--rpc_thread_num=64", "-logtostderr", "--rpc_thread_num=32", "--v=1"]);
    assert_eq!(plan.unwrap().ineffective, ["logtostderr", "rpc_thread_num", "v"]);
    let chosen = planned(&["--memory_allocator=cachelib", "--enable_ha=false"]).unwrap();
    assert_eq!(chosen.ineffective, ["memory_allocator"]);
}

#[test]
fn a_promise_that_cannot_be_kept_is_refused_with_what_to_do() {
    for (flag, advice) in [
        ("--enable_ha", "handoff_dir"),
        ("--enable_oplog", "handoff_dir"),
        ("--enable_snapshot", "handoff_dir"),
        ("--enable_cxl", "leave it out"),
        ("--enable_offload=true", "leave it out"),
        ("--enable_kv_events", "batch_query_keys"),
        ("--enable_multi_tenants", "leave it out"),
        ("--noallow_evict_soft_pinned_objects", "hard pin"),
        ("--allocation_strategy=cxl", "random"),
        ("--memory_allocator=foo", "offset"),
        ("--root_fs_dir=/data", "leave it out"),
        ("--rpc_interface=eth0", "rpc_address"),
        ("--dynamic_replication_mode=foo", "off"),
    ] {
        let error = planned(&[flag]).unwrap_err();
        let name = flag.trim_start_matches("--").trim_start_matches("no");
        let name = name.split('=').next().unwrap();
        assert!(error.contains(name) && error.contains(advice), "{flag}: {error}");
    }
}

#[test]
fn flags_of_the_own_master_are_passed_on_behind_the_others() {
    let plan = planned(&["--handoff_dir=/d", "--dev", "--rpc_port=7"]).unwrap();
    assert_eq!(plan.flags[BY_DEFAULT.len()..], ["--handoff-dir=/d", "--dev"]);
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for flag in ["--rpc_port=65536", "--metrics_port=-1", "--default_kv_lease_ttl=2d"] {
        let error = planned(&[flag]).unwrap_err();
        assert!(error.contains(flag.split('=').next().unwrap()), "{error}");
    }
}
