//! The flags of the program whose place this binary takes, and what becomes of each.

/// What a value is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Real,
    Text,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It sets what it sets there.
    Mapped,
    /// It is accepted and does nothing, because of this.
    NoEffect(&'static str),
    /// These values are accepted and do nothing; any other would be a broken promise and is refused
    /// with this advice.
    Only(&'static [&'static str], &'static str),
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    /// With underscores, as it is printed.
    pub(super) name: &'static str,
    /// What its values are.
    pub(super) kind: Kind,
    /// Its value if it is not given.
    pub(super) default: &'static str,
    /// What becomes of it.
    pub(super) fate: Fate,
}

/// The flag of this name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

impl Kind {
    /// As the other program names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Switch => "bool",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Uint32 => "uint32",
            Kind::Uint64 => "uint64",
            Kind::Real => "double",
            Kind::Text => "string",
        }
    }
}

const fn flag(name: &'static str, kind: Kind, default: &'static str, fate: Fate) -> Flag {
    Flag { name, kind, default, fate }
}

use Fate::{Mapped, NoEffect, Only};
use Kind::{Int32, Int64, Real, Switch, Text, Uint32, Uint64};

/// All flags of release 0.3.13, in the order of their names.
pub(super) const FLAGS: [Flag; 97] = [
    flag("allocation_strategy", Text, "random", Mapped),
    flag(
        "allow_evict_soft_pinned_objects",
        Switch,
        "true",
        Only(
            &["true"],
            "leave it out: soft pins are evicted last, but are evicted; objects that must stay are put with a hard pin",
        ),
    ),
    flag("batch_oplog_retry_timeout_sec", Uint32, "180", NoEffect(OPLOG)),
    flag("client_ttl", Int64, "10", Mapped),
    flag(
        "cluster_id",
        Text,
        "mooncake_cluster",
        NoEffect("it names files and keys of several masters, and this is one"),
    ),
    flag("config_path", Text, "", Mapped),
    flag("cxl_path", Text, "/dev/dax0.0", NoEffect(CXL)),
    flag("cxl_size", Uint64, "8589934592", NoEffect(CXL)),
    flag("default_kv_lease_ttl", Text, "10000", Mapped),
    flag("default_kv_soft_pin_ttl", Text, "1800000", Mapped),
    flag("dynamic_replication_admission_qps_threshold", Real, "0.8", NoEffect(REPLICAS)),
    flag("dynamic_replication_heat_window_seconds", Uint32, "10", NoEffect(REPLICAS)),
    flag("dynamic_replication_max_memory_replicas", Uint64, "2", NoEffect(REPLICAS)),
    flag(
        "dynamic_replication_mode",
        Text,
        "off",
        Only(
            &["off", "observe", "enforce"],
            "give off: objects have the replicas that their writers ask for",
        ),
    ),
    flag("enable_cxl", Switch, "false", Only(&["false"], "leave it out: there is no CXL memory")),
    flag("enable_disk_eviction", Switch, "true", NoEffect(DISKS)),
    flag(
        "enable_ha",
        Switch,
        "false",
        Only(
            &["false"],
            "leave it out and run one master; --handoff_dir DIR keeps the index over a planned restart",
        ),
    ),
    flag("enable_http_metadata_server", Switch, "false", Mapped),
    flag(
        "enable_kv_events",
        Switch,
        "false",
        Only(
            &["false"],
            "leave it out, and let routers ask /batch_query_keys: no events are published",
        ),
    ),
    flag(
        "enable_metadata_cleanup_on_timeout",
        Switch,
        "false",
        NoEffect(
            "what a store has left in the metadata store stays until it comes back or the master restarts",
        ),
    ),
    flag("enable_metric_reporting", Switch, "true", Mapped),
    flag(
        "enable_multi_tenants",
        Switch,
        "false",
        Only(
            &["false"],
            "leave it out: there are no tenants, and all keys would share one space without quotas",
        ),
    ),
    flag(
        "enable_offload",
        Switch,
        "false",
        Only(&["false"], "leave it out here and at the stores: objects are kept in memory alone"),
    ),
    flag(
        "enable_oplog",
        Switch,
        "false",
        Only(&["false"], "leave it out; --handoff_dir DIR keeps the index over a planned restart"),
    ),
    flag(
        "enable_snapshot",
        Switch,
        "false",
        Only(&["false"], "leave it out; --handoff_dir DIR keeps the index over a planned restart"),
    ),
    flag(
        "enable_snapshot_restore",
        Switch,
        "false",
        Only(&["false"], "leave it out; --handoff_dir DIR keeps the index over a planned restart"),
    ),
    flag("etcd_endpoints", Text, "", NoEffect(HA)),
    flag("eviction_high_watermark_ratio", Real, "0.9", Mapped),
    flag("eviction_ratio", Real, "0.05", Mapped),
    flag("global_file_segment_size", Int64, "9223372036854775807", NoEffect(DISKS)),
    flag("ha_backend_connstring", Text, "", NoEffect(HA)),
    flag("ha_backend_type", Text, "etcd", NoEffect(HA)),
    flag("http_metadata_server_host", Text, "0.0.0.0", Mapped),
    flag("http_metadata_server_port", Int32, "8080", Mapped),
    flag("kv_events_additional_salt", Text, "", NoEffect(EVENTS)),
    flag("kv_events_backend_id", Text, "", NoEffect(EVENTS)),
    flag("kv_events_bind_endpoint", Text, "", NoEffect(EVENTS)),
    flag("kv_events_block_size", Uint32, "0", NoEffect(EVENTS)),
    flag("kv_events_dp_rank", Uint32, "0", NoEffect(EVENTS)),
    flag("kv_events_emit_legacy_compat", Switch, "true", NoEffect(EVENTS)),
    flag("kv_events_emit_object_key", Switch, "true", NoEffect(EVENTS)),
    flag("kv_events_lora_name", Text, "", NoEffect(EVENTS)),
    flag("kv_events_model_name", Text, "", NoEffect(EVENTS)),
    flag("kv_events_queue_capacity", Uint32, "65536", NoEffect(EVENTS)),
    flag("kv_events_tenant_id", Text, "default", NoEffect(EVENTS)),
    flag("max_kv_soft_pin_ttl", Text, "86400000", Mapped),
    flag("max_retry_attempts", Uint32, "10", NoEffect(JOBS)),
    flag("max_threads", Int32, "16", NoEffect(THREADS)),
    flag("max_total_finished_tasks", Uint32, "10000", NoEffect(JOBS)),
    flag("max_total_pending_tasks", Uint32, "10000", NoEffect(JOBS)),
    flag("max_total_processing_tasks", Uint32, "10000", NoEffect(JOBS)),
    flag("memory_allocator", Text, "offset", Only(&["offset", "cachelib"], "give offset")),
    flag("metrics_host", Text, "0.0.0.0", Mapped),
    flag("metrics_port", Int32, "9003", Mapped),
    flag("nof_eviction_high_watermark_ratio", Real, "0.9", NoEffect(NVME_OF)),
    flag("nof_eviction_ratio", Real, "0.05", NoEffect(NVME_OF)),
    flag("nof_heartbeat_failures_threshold", Uint32, "3", NoEffect(NVME_OF)),
    flag("nof_heartbeat_interval_sec", Int64, "10", NoEffect(NVME_OF)),
    flag("nof_heartbeat_probe_timeout_ms", Uint32, "1000", NoEffect(NVME_OF)),
    flag("offload_cap_ratio", Real, "0.5", NoEffect(DISKS)),
    flag("offload_force_evict", Switch, "false", NoEffect(DISKS)),
    flag("offload_on_evict", Switch, "false", NoEffect(DISKS)),
    flag("offloading_queue_limit", Uint64, "50000", NoEffect(DISKS)),
    flag("oplog_batch_max_entries", Uint32, "1024", NoEffect(OPLOG)),
    flag("oplog_poll_interval_ms", Int32, "1000", NoEffect(OPLOG)),
    flag("pending_task_timeout_sec", Uint64, "300", NoEffect(JOBS)),
    flag("pod_name", Text, "", NoEffect(HA)),
    flag("pod_namespace", Text, "", NoEffect(HA)),
    flag("port", Int32, "50051", Mapped),
    flag("processing_task_timeout_sec", Uint64, "300", NoEffect(JOBS)),
    flag("promotion_admission_threshold", Uint32, "2", NoEffect(DISKS)),
    flag("promotion_max_per_heartbeat", Uint32, "1", NoEffect(DISKS)),
    flag("promotion_on_hit", Switch, "false", NoEffect(DISKS)),
    flag("promotion_queue_limit", Uint32, "50000", NoEffect(DISKS)),
    flag("put_start_discard_timeout_sec", Uint64, "30", Mapped),
    flag("put_start_release_timeout_sec", Uint64, "600", Mapped),
    flag("quota_bytes", Uint64, "0", NoEffect(DISKS)),
    flag("root_fs_dir", Text, "", Only(&[""], "leave it out: objects are kept in memory alone")),
    flag("rpc_address", Text, "0.0.0.0", Mapped),
    flag(
        "rpc_conn_timeout_seconds",
        Int32,
        "0",
        NoEffect("connections end when their peer is gone"),
    ),
    flag("rpc_enable_tcp_no_delay", Switch, "true", NoEffect("answers are never held back")),
    flag(
        "rpc_interface",
        Text,
        "",
        Only(&[""], "give the address of the interface by --rpc_address"),
    ),
    flag("rpc_port", Int32, "0", Mapped),
    flag("rpc_thread_num", Int32, "0", NoEffect(THREADS)),
    flag("snapshot_backup_dir", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_catalog_backend_connstring", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_catalog_backend_type", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_catalog_store_connstring", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_catalog_store_type", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_child_timeout_seconds", Uint64, "300", NoEffect(SNAPSHOTS)),
    flag("snapshot_interval_seconds", Uint64, "600", NoEffect(SNAPSHOTS)),
    flag("snapshot_object_store_type", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_payload_backend_type", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_payload_store_type", Text, "", NoEffect(SNAPSHOTS)),
    flag("snapshot_retention_count", Uint32, "2", NoEffect(SNAPSHOTS)),
    flag("tenant_quota_connector_type", Text, "file", NoEffect(TENANTS)),
    flag("tenant_quota_connector_uri", Text, "", NoEffect(TENANTS)),
];

const HA: &str = "it is for several masters, and this is one";
const OPLOG: &str = "it is for an operation log, and there is none";
const DISKS: &str = "it is for objects on disks, and there are none";
const EVENTS: &str = "it is for events, and none are published";
const JOBS: &str = "it is for jobs that copy and move, and there are none";
const NVME_OF: &str = "it is for NVMe-oF segments, and there are none";
const SNAPSHOTS: &str = "it is for periodic snapshots, and there are none";
const REPLICAS: &str = "objects have the replicas that their writers ask for";
const THREADS: &str =
    "the number of threads follows the cores; --shards and --shard-layout divide them";
const TENANTS: &str = "there are no tenants";
const CXL: &str = "there is no CXL memory";

/// Flags of the libraries that the other program is made of: about its log, for the most part. They
/// are accepted and do nothing. With each, whether it is a switch.
pub(super) const LIBRARY_FLAGS: [(&str, bool); 26] = [
    ("alsologtoemail", false),
    ("alsologtostderr", true),
    ("colorlogtostderr", true),
    ("drop_log_memory", true),
    ("log_backtrace_at", false),
    ("log_dir", false),
    ("log_link", false),
    ("log_prefix", true),
    ("logbuflevel", false),
    ("logbufsecs", false),
    ("logemaillevel", false),
    ("logfile_mode", false),
    ("logmailer", false),
    ("logtostderr", true),
    ("max_log_size", false),
    ("minloglevel", false),
    ("mmap_arena_pool_size", false),
    ("stderrthreshold", false),
    ("stop_logging_if_full_disk", true),
    ("symbolize_stacktrace", true),
    ("tab_completion_columns", false),
    ("tab_completion_word", false),
    ("undefok", false),
    ("use_mmap_arena_allocator", true),
    ("v", false),
    ("vmodule", false),
];

/// Flags of those libraries that say where more flags come from: to do nothing about them would lose
/// settings.
pub(super) const REFUSED_LIBRARY_FLAGS: [&str; 3] = ["flagfile", "fromenv", "tryfromenv"];
