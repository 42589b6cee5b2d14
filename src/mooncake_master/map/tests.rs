use super::super::given::{self, Line};
use super::*;

fn plan_of(arguments: &[&str]) -> Plan {
    let master = vec![("handoff_dir".to_owned(), false), ("dev".to_owned(), true)];
    let arguments: Vec<String> = arguments.iter().map(|&it| it.to_owned()).collect();
    let Line::Run(settings) = given::read(&arguments, &master) else {
        panic!("no settings but help");
    };
    plan(settings, &master)
}

fn planned(arguments: &[&str]) -> Plan {
    let plan = plan_of(arguments);
    assert_eq!(plan.refused, Vec::<String>::new());
    plan
}

fn refused(arguments: &[&str]) -> String {
    let refused = plan_of(arguments).refused;
    assert_eq!(refused.len(), 1, "{refused:?}");
    refused.concat()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.ineffective.iter().map(|it| it.name.as_str()).collect()
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
    let plan = planned(&[]);
    assert_eq!((plan.flags, plan.ineffective), (BY_DEFAULT.map(str::to_owned).to_vec(), vec![]));
    assert_eq!(plan.works, Vec::<String>::new());
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
        let plan = planned(&[flag]);
        assert!(plan.flags.iter().any(|it| it == expected), "{flag}: {:?}", plan.flags);
        assert_eq!(names(&plan), [""; 0], "{flag}");
        assert_eq!(plan.works.len(), 1, "{flag}");
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
    let plan = planned(&["--noenable_metric_reporting"]);
    assert!(!plan.flags.iter().any(|flag| flag.contains("summary")), "{:?}", plan.flags);
}

#[test]
fn the_older_name_of_the_port_counts_only_beside_zero() {
    assert_eq!(planned(&["--port=8", "--rpc_port=7"]).flags[0], "--mooncake-port=7");
    assert_eq!(planned(&["--port=8", "--rpc_port=0"]).flags[0], "--mooncake-port=8");
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
        let plan = planned(&arguments);
        assert_eq!(plan.flags[0], "--mooncake-port=6");
        assert!(plan.flags.contains(&"--metrics-port=2".to_owned()));
        assert_eq!(names(&plan), ["max_threads", "some_key (unknown)"]);
    }
}

#[test]
fn flags_of_the_master_alone_may_stand_in_the_file_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master.yaml");
    std::fs::write(&path, "handoff_dir: /dev/shm/x\ndev: true\nrpc_prt: 5\n").unwrap();
    let plan = planned(&[&format!("--config_path={}", path.display())]);
    for flag in ["--handoff-dir=/dev/shm/x", "--dev"] {
        assert!(plan.flags.iter().any(|it| it == flag), "{:?}", plan.flags);
    }
    assert_eq!(names(&plan), ["rpc_prt (unknown)"]);
}

#[test]
fn flags_without_effect_are_named_once() {
    let plan = planned(&["--rpc_thread_num=64", "-logtostderr", "--rpc_thread_num=32", "--v=1"]);
    assert_eq!(names(&plan), ["logtostderr", "rpc_thread_num", "v"]);
    let chosen = planned(&["--memory_allocator=cachelib", "--enable_ha=false"]);
    assert_eq!(names(&chosen), ["memory_allocator"]);
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
        let error = refused(&[flag]);
        let name = flag.trim_start_matches("--").trim_start_matches("no");
        let name = name.split('=').next().unwrap();
        assert!(error.contains(name) && error.contains(advice), "{flag}: {error}");
    }
}

#[test]
fn flags_of_the_own_master_are_passed_on_behind_the_others() {
    let plan = planned(&["--handoff_dir=/d", "--dev", "--rpc_port=7"]);
    assert_eq!(plan.flags[BY_DEFAULT.len()..], ["--handoff-dir=/d", "--dev"]);
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for flag in ["--rpc_port=65536", "--metrics_port=-1", "--default_kv_lease_ttl=2d"] {
        let error = refused(&[flag]);
        assert!(error.contains(flag.split('=').next().unwrap()), "{error}");
    }
}

#[test]
fn everything_that_is_refused_is_told_at_once_and_does_not_count_as_working() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master.yaml");
    std::fs::write(&path, "eviction_ratio: much\nenable_cxl: true\n").unwrap();
    let file = format!("--config_path={}", path.display());
    let plan = plan_of(&[
        "--enable_ha",
        "--nope=1",
        "--metrics_port=99999",
        "--client_ttl=x",
        "--client_ttl=7",
        "--default_kv_lease_ttl=2d",
        "--allocation_strategy=cxl",
        "--max_threads=4",
        &file,
    ]);
    let parts = [
        "enable_ha",
        "nope",
        "metrics_port",
        "client_ttl",
        "default_kv_lease_ttl",
        "allocation_strategy",
        "eviction_ratio",
        "enable_cxl",
    ];
    for part in parts {
        let found = plan.refused.iter().filter(|text| text.contains(part)).count();
        assert_eq!(found, 1, "{part}: {:?}", plan.refused);
    }
    assert_eq!(plan.refused.len(), parts.len());
    assert_eq!(plan.works, ["client_ttl=7"]);
    assert_eq!(names(&plan), ["max_threads"]);
}

#[test]
fn a_file_that_is_refused_does_not_stand_among_what_works() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, wrong) = (folder.path().join("missing.json"), folder.path().join("wrong.json"));
    std::fs::write(&wrong, r#"{"rpc_port": "x"}"#).unwrap();
    for path in [missing, wrong] {
        let file = format!("--config_path={}", path.display());
        let plan = plan_of(&[&file, "--client_ttl=7"]);
        assert_eq!(plan.works, ["client_ttl=7"]);
        assert!(plan.refused.len() == 1 && plan.refused[0].starts_with(&file), "{plan:?}");
    }
}
