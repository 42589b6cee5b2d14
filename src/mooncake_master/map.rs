//! From those settings to the command line of `mooring master`.

use std::collections::BTreeMap;
use std::path::Path;

use super::file::{self, FileSettings};
use super::flags::{self, Fate};
use super::given::{Given, MasterFlags, Owner};
use super::values::{address, duration_ms, port};
use crate::command::CommandError;

/// How the master is to be started.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// The flags of `mooring master`.
    pub(super) flags: Vec<String>,
    /// What was set and does nothing here, in the order of the names.
    pub(super) ineffective: Vec<String>,
}

/// Puts the settings of the command line, and below them those of the file that it names, into the
/// flags of `mooring master`.
///
/// # Errors
/// Arguments, naming the flag: if its value is of no use, or would be a promise that cannot be kept.
pub(super) fn plan(line: Vec<Given>, master: &MasterFlags) -> Result<Plan, CommandError> {
    let path = line.iter().rev().find(|it| it.name == "config_path").map(|it| it.value.clone());
    let file = match path {
        Some(path) if !path.is_empty() => file::read(Path::new(&path), master)?,
        _ => FileSettings::default(),
    };
    let mut ineffective: Vec<String> =
        file.unknown.into_iter().map(|key| format!("{key} (unknown)")).collect();
    let mut set = BTreeMap::new();
    let mut flags = Vec::new();
    for given in file.settings.into_iter().chain(line) {
        match given.owner {
            Owner::Table => drop(set.insert(given.name, given.value)),
            Owner::Library => ineffective.push(given.name),
            Owner::Master => flags.extend(passed_on(&given)),
        }
    }
    for (name, value) in &set {
        ineffective.extend(fate_of(name, value)?);
    }
    ineffective.sort_unstable();
    ineffective.dedup();
    flags.splice(0..0, mapped(&Set(set))?);
    Ok(Plan { flags, ineffective })
}

/// A flag of the master's own.
fn passed_on(given: &Given) -> Option<String> {
    let name = given.name.replace('_', "-");
    match given.value.as_str() {
        "false" => None,
        "true" => Some(format!("--{name}")),
        value => Some(format!("--{name}={value}")),
    }
}

/// The name again if the setting does nothing.
fn fate_of(name: &str, value: &str) -> Result<Option<String>, CommandError> {
    let Some(flag) = flags::find(name) else { return Ok(None) };
    match flag.fate {
        Fate::Mapped => Ok(None),
        Fate::NoEffect(_) => Ok(Some(name.to_owned())),
        Fate::Only(accepted, advice) if !accepted.contains(&value) => {
            Err(CommandError::Arguments(format!("--{name}={value} is not supported: {advice}")))
        }
        // With its default it says what is so anyway.
        Fate::Only(..) => Ok((value != flag.default).then(|| name.to_owned())),
    }
}

/// What was set for flags that are mapped.
struct Set(BTreeMap<String, String>);

impl Set {
    fn given(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What was set, else the default.
    fn value(&self, name: &str) -> &str {
        let default = || flags::find(name).map_or("", |flag| flag.default);
        self.given(name).unwrap_or_else(default)
    }
}

fn mapped(set: &Set) -> Result<Vec<String>, CommandError> {
    let mut flags = Vec::new();
    let mut give = |name: &str, value: String| flags.push(format!("--{name}={value}"));

    // The older name counts where the newer one is zero.
    let name = if set.value("rpc_port") == "0" { "port" } else { "rpc_port" };
    let rpc_port = port(name, set.value(name))?;
    give("mooncake-port", rpc_port.to_string());
    give("rpc-port", rpc_port.to_string());
    // Without it all addresses are listened on, as there.
    if let Some(text) = set.given("rpc_address").filter(|text| *text != "0.0.0.0") {
        give("rpc-address", address("rpc_address", text)?.to_string());
    }
    let metrics = address("metrics_host", set.value("metrics_host"))?;
    give("metrics-address", metrics.to_string());
    give("metrics-port", port("metrics_port", set.value("metrics_port"))?.to_string());

    if set.value("enable_metric_reporting") == "true" {
        // As often as that program.
        give("summary-log-interval", "10s".to_owned());
    }
    if set.value("enable_http_metadata_server") == "true" {
        let (host, number) = ("http_metadata_server_host", "http_metadata_server_port");
        give("http-metadata-server-host", address(host, set.value(host))?.to_string());
        give("http-metadata-server-port", port(number, set.value(number))?.to_string());
    }
    for (name, flag) in DURATIONS {
        if let Some(text) = set.given(name) {
            give(flag, format!("{}ms", duration_ms(name, text)?));
        }
    }
    if let Some(strategy) = strategy(set.value("allocation_strategy"))? {
        give("allocation-strategy", strategy.to_owned());
    }
    for (name, flag) in IN_SECONDS {
        if let Some(seconds) = set.given(name) {
            give(flag, format!("{seconds}s"));
        }
    }
    for (name, flag) in RATIOS {
        if let Some(ratio) = set.given(name) {
            give(flag, ratio.to_owned());
        }
    }
    if set.value("enable_http_metadata_server") == "true" {
        flags.push("--enable-http-metadata-server".to_owned());
    }
    Ok(flags)
}

/// The strategy by its name here. The existing master takes one that it does not know for random, with
/// a warning; a typing error is better told.
fn strategy(name: &str) -> Result<Option<&'static str>, CommandError> {
    match name {
        // What is chosen here spreads as evenly, and fills no segment before the others.
        "random" => Ok(None),
        // No disk has a share of free bytes here, and there the memory decides, too.
        "free_ratio_first" | "ssd_free_ratio_first" => Ok(Some("free-ratio-first")),
        "local_first" => Ok(Some("local-first")),
        other => Err(CommandError::Arguments(format!(
            "--allocation_strategy={other} is not supported: give random, free_ratio_first or \
             local_first; there is no CXL memory"
        ))),
    }
}

const DURATIONS: [(&str, &str); 3] = [
    ("default_kv_lease_ttl", "default-kv-lease-ttl"),
    ("default_kv_soft_pin_ttl", "default-kv-soft-pin-ttl"),
    ("max_kv_soft_pin_ttl", "max-kv-soft-pin-ttl"),
];

const IN_SECONDS: [(&str, &str); 3] = [
    ("client_ttl", "client-ttl"),
    ("put_start_discard_timeout_sec", "put-start-discard-timeout-sec"),
    ("put_start_release_timeout_sec", "put-start-release-timeout-sec"),
];

const RATIOS: [(&str, &str); 2] = [
    ("eviction_high_watermark_ratio", "eviction-high-watermark-ratio"),
    ("eviction_ratio", "eviction-ratio"),
];

#[cfg(test)]
mod tests;
