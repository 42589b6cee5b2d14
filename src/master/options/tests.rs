use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: MasterArgs,
}

fn parsed(line: &str) -> Result<MasterArgs, String> {
    let arguments = std::iter::once("master").chain(line.split_whitespace());
    Line::try_parse_from(arguments).map(|line| line.args).map_err(|error| error.to_string())
}

fn options(line: &str) -> Result<MasterOptions, String> {
    MasterOptions::on_cores(&parsed(line)?, 12).map_err(|error| {
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    })
}

#[test]
fn defaults_are_those_that_operators_know() {
    let options = options("--dev").unwrap();
    let pending_timeout_ms = Some(60_000);
    assert_eq!(options.settings, Settings { pending_timeout_ms, ..Settings::default() });
    assert_eq!((options.shutdown_deadline, options.handoff), (Duration::from_secs(25), None));
    assert_eq!((options.rpc_port, options.metrics.port()), (50051, 9003));
    assert!(options.metrics.ip().is_loopback());
}

#[test]
fn every_setting_reaches_the_core() {
    let line = "--dev --default-kv-lease-ttl 1234 --client-ttl 7 --put-start-discard-timeout-sec 8 \
                --put-start-release-timeout-sec 9s --eviction-high-watermark-ratio 0.5 \
                --eviction-ratio 0.25 --handoff-segment-deadline-sec 11 --allocation-strategy random \
                --eviction-policy lru";
    let expected = Settings {
        lease_ttl_ms: 1234,
        client_ttl_ms: 7_000,
        put_discard_timeout_ms: 8_000,
        put_release_timeout_ms: 9_000,
        eviction_high_watermark_ratio: 0.5,
        eviction_ratio: 0.25,
        pending_timeout_ms: Some(11_000),
        allocation_strategy: AllocationStrategy::Random,
        eviction_policy: EvictionPolicy::Lru,
    };
    let options = options(line).unwrap();
    assert_eq!(options.settings, expected);
    assert_eq!(options.client_ttl, Duration::from_secs(7));
}

#[test]
fn shards_are_a_third_of_the_cores_and_get_threads_on_many() {
    let by_default = options("--dev").unwrap();
    assert_eq!((by_default.shards, by_default.layout), (4, Layout::Threads));
    assert_eq!(by_default.runtime_threads, 8);
    let chosen = options("--dev --shards 3 --shard-layout tasks").unwrap();
    assert_eq!((chosen.shards, chosen.layout), (3, Layout::Tasks));
    assert_eq!(chosen.runtime_threads, 12);
}

#[test]
fn on_two_cores_one_thread_does_it_all_and_on_four_there_is_one_for_each_core() {
    let threads = |line: &str, cores| {
        let options = MasterOptions::on_cores(&parsed(line).unwrap(), cores).unwrap();
        (options.layout, options.runtime_threads)
    };
    for cores in [1, 2] {
        assert_eq!(threads("--dev", cores), (Layout::Tasks, 1));
        assert_eq!(threads("--dev --shard-layout tasks", cores), (Layout::Tasks, 2));
        assert_eq!(threads("--dev --shard-layout threads", cores), (Layout::Threads, 2));
    }
    assert_eq!(threads("--dev", 4), (Layout::Tasks, 4));
    assert_eq!(threads("--dev --shard-layout one-thread", 64), (Layout::Tasks, 1));
    for name in ["one-thread", "tasks", "threads"] {
        assert_eq!(options(&format!("--dev --shard-layout {name}")).unwrap().layout_name(), name);
    }
}

#[test]
fn without_a_certificate_only_a_port_for_mooncake_makes_sense() {
    assert!(options("").unwrap_err().contains("--tls-cert"));
    let alone = options("--mooncake-port").unwrap();
    assert_eq!((alone.mooncake_port, alone.identity.is_none()), (Some(50051), true));
    let beside = options("--mooncake-port 7 --dev").unwrap();
    assert_eq!((beside.mooncake_port, beside.is_development()), (Some(7), true));
    assert_eq!(options("--dev").unwrap().mooncake_port, None);
}

#[test]
fn the_metadata_store_is_off_and_on_the_loopback_by_default() {
    assert_eq!(options("--dev").unwrap().metadata, None);
    let address = options("--dev --enable-http-metadata-server").unwrap().metadata.unwrap();
    assert!(address.ip().is_loopback() && address.port() == 8080);
}

#[test]
fn a_handoff_leaves_room_for_the_rest_of_the_shutdown() {
    let by_default = options("--dev --handoff-dir d --shards 3").unwrap();
    let handoff = by_default.handoff.unwrap();
    assert_eq!(handoff.export_deadline, Duration::from_secs(20));
    assert_eq!((handoff.export_workers, handoff.restore_workers), (3, 3));
    assert_eq!(handoff.max_age_ms, 120_000);
    assert_eq!(handoff.policy, FailurePolicy::ServeEmpty);
    assert!(handoff.lock_wait > by_default.shutdown_deadline);
    assert_eq!(by_default.state_dir, Some("d".into()));
    let line = "--dev --handoff-dir d --state-dir s --shards 3 --shutdown-deadline-sec 50 \
                --handoff-shutdown-deadline-sec 30 --handoff-max-workers 2 \
                --handoff-restore-workers 4 --handoff-failure-policy refuse \
                --handoff-max-age-sec 5 --handoff-restore-deadline-sec 6 \
                --handoff-restore-margin-percent 7";
    let chosen = options(line).unwrap();
    assert_eq!(chosen.state_dir, Some("s".into()));
    let expected = HandoffOptions {
        directory: "d".into(),
        max_age_ms: 5_000,
        policy: FailurePolicy::Refuse,
        export_deadline: Duration::from_secs(30),
        restore_deadline: Duration::from_secs(6),
        export_workers: 2,
        restore_workers: 4,
        margin_percent: 7,
        lock_wait: Duration::from_secs(60),
    };
    assert_eq!(chosen.handoff, Some(expected));
}

#[test]
fn what_does_not_fit_together_is_refused_with_both_names() {
    let cases = [
        ("", &["--tls-cert", "--dev"][..]),
        ("--dev --tls-cert a --tls-key b", &["--dev", "--tls-cert"]),
        ("--tls-cert a", &["--tls-cert", "--tls-key"]),
        ("--tls-key a", &["--tls-cert", "--tls-key"]),
        ("--dev --tls-client-ca a", &["--tls-client-ca", "--tls-cert"]),
        (
            "--dev --put-start-release-timeout-sec 30",
            &["--put-start-release-timeout-sec", "--put-start-discard-timeout-sec"],
        ),
        ("--dev --eviction-ratio 0.9", &["--eviction-ratio", "--eviction-high-watermark-ratio"]),
        (
            "--dev --handoff-shutdown-deadline-sec 26",
            &["--handoff-shutdown-deadline-sec", "--shutdown-deadline-sec"],
        ),
        ("--dev --handoff-failure-policy panic", &["--handoff-failure-policy", "refuse"]),
        ("--dev --client-ttl 999ms", &["--client-ttl", "1s"]),
        ("--dev --client-ttl 0", &["--client-ttl", "from 1s to 365d"]),
        ("--dev --shards 0", &["--shards"]),
        ("--dev --shards 65", &["--shards"]),
        ("--dev --eviction-high-watermark-ratio 1.5", &["--eviction-high-watermark-ratio"]),
    ];
    for (line, names) in cases {
        let error = options(line).unwrap_err();
        assert!(names.iter().all(|name| error.contains(name)), "{line}: {error}");
    }
}

#[test]
fn a_range_should_be_held_for_as_long_as_a_write_that_was_begun_in_time_may_last() {
    let early = |line| options(line).unwrap().releases_early();
    assert!(!early("--dev"));
    assert!(early("--dev --put-start-release-timeout-sec 69s"));
    assert!(!early("--dev --put-start-release-timeout-sec 70s"));
    let times = "--put-start-discard-timeout-sec 1s --put-start-release-timeout-sec 2s";
    assert!(early(&format!("--dev {times}")));
}

#[test]
fn what_clients_of_mooncake_may_pin_has_a_default_below_its_bound() {
    let by_default = options("--dev").unwrap().mooncake;
    assert_eq!(
        (by_default.soft_pin_ttl_ms, by_default.soft_pin_ttl_max_ms),
        (1_800_000, 86_400_000)
    );
    assert!(!by_default.local_first);
    let chosen = options("--dev --allocation-strategy local-first --default-kv-soft-pin-ttl 5");
    let chosen = chosen.unwrap().mooncake;
    assert!(chosen.local_first && chosen.soft_pin_ttl_ms == 5);
    let wrong = options("--dev --max-kv-soft-pin-ttl 1m").unwrap_err();
    assert!(wrong.contains("--default-kv-soft-pin-ttl"), "{wrong}");
}
