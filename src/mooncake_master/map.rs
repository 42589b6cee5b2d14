//! From those settings to the command line of `mooring master`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use super::file::{self, FileSettings};
use super::flags::{self, Fate};
use super::given::{Given, MasterFlags, Owner, Settings};
use super::values::{address, duration_ms, port};
use crate::command::CommandError;

/// How the master is to be started, and what becomes of each setting.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The flags of `mooring master`.
    pub(super) flags: Vec<String>,
    /// What sets here what it sets there, as `name=value`.
    pub(super) works: Vec<String>,
    /// What was set and does nothing here, in the order of the names.
    pub(super) ineffective: Vec<Ineffective>,
    /// What would be a promise that cannot be kept, or has a value of no use; with anything here no
    /// master is started.
    pub(super) refused: Vec<String>,
}

/// A setting that does nothing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ineffective {
    pub(super) name: String,
    pub(super) why: &'static str,
}

/// Puts the settings of the command line, and below them those of the file that it names, into the
/// flags of `mooring master`.
pub(super) fn plan(line: Settings, master: &MasterFlags) -> Plan {
    let mut plan = Plan { refused: line.refused, ..Plan::default() };
    let path = line.given.iter().rev().find(|it| it.name == "config_path");
    let file = match path.filter(|path| !path.value.is_empty()) {
        Some(path) => file::read(Path::new(&path.value), master).unwrap_or_else(|error| {
            FileSettings { refused: vec![error.to_string()], ..FileSettings::default() }
        }),
        None => FileSettings::default(),
    };
    let is_file_refused = !file.refused.is_empty();
    plan.refused.extend(file.refused);
    for key in file.unknown {
        plan.ineffective.push(Ineffective { name: format!("{key} (unknown)"), why: UNKNOWN });
    }
    let mut set = BTreeMap::new();
    let mut passed_on_flags = Vec::new();
    for given in file.settings.into_iter().chain(line.given) {
        match given.owner {
            Owner::Table => drop(set.insert(given.name, given.value)),
            Owner::Library => {
                plan.ineffective.push(Ineffective { name: given.name, why: OF_A_LIBRARY });
            }
            Owner::Master => passed_on_flags.extend(passed_on(&given)),
        }
    }
    for (name, value) in &set {
        plan.decide(name, value);
    }
    plan.ineffective.sort_unstable();
    plan.ineffective.dedup();
    let mut mapping = Mapping { set, flags: Vec::new(), refused: Vec::new() };
    mapping.map();
    for (name, error) in mapping.refused {
        plan.works.retain(|setting| !setting.starts_with(&format!("{name}=")));
        plan.refused.push(error.to_string());
    }
    if is_file_refused {
        plan.works.retain(|setting| !setting.starts_with("config_path="));
    }
    plan.works.extend(passed_on_flags.iter().map(|flag| flag[2..].to_owned()));
    plan.flags = mapping.flags;
    plan.flags.extend(passed_on_flags);
    plan
}

impl Plan {
    /// Whether a setting of the table works, does nothing, or is refused.
    fn decide(&mut self, name: &str, value: &str) {
        let Some(flag) = flags::find(name) else { return };
        let mut without_effect =
            |why| self.ineffective.push(Ineffective { name: name.to_owned(), why });
        match flag.fate {
            Fate::Mapped => self.works.push(format!("{name}={value}")),
            Fate::NoEffect(why) => without_effect(why),
            Fate::Only(accepted, advice) if !accepted.contains(&value) => {
                self.refused.push(format!("--{name}={value} is not supported: {advice}"));
            }
            // With its default it says what is so anyway.
            Fate::Only(..) if value == flag.default => self.works.push(format!("{name}={value}")),
            Fate::Only(_, advice) => without_effect(advice),
        }
    }
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

/// The way of the settings that are mapped into flags.
struct Mapping {
    set: BTreeMap<String, String>,
    flags: Vec<String>,
    /// What has a value of no use, by its name.
    refused: Vec<(&'static str, CommandError)>,
}

impl Mapping {
    fn given(&self, name: &str) -> Option<String> {
        self.set.get(name).cloned()
    }

    /// What was set, else the default.
    fn value(&self, name: &str) -> String {
        let default = || flags::find(name).map_or("", |flag| flag.default).to_owned();
        self.given(name).unwrap_or_else(default)
    }

    fn give(&mut self, flag: &str, value: impl Display) {
        self.flags.push(format!("--{flag}={value}"));
    }

    /// What was made of the value of a flag, unless it is of no use.
    fn made<T>(&mut self, name: &'static str, outcome: Result<T, CommandError>) -> Option<T> {
        outcome.map_err(|error| self.refused.push((name, error))).ok()
    }

    fn give_port(&mut self, flag: &str, name: &'static str) {
        let outcome = port(name, &self.value(name));
        if let Some(port) = self.made(name, outcome) {
            self.give(flag, port);
        }
    }

    fn give_address(&mut self, flag: &str, name: &'static str) {
        let outcome = address(name, &self.value(name));
        if let Some(address) = self.made(name, outcome) {
            self.give(flag, address);
        }
    }

    fn map(&mut self) {
        // The older name counts where the newer one is zero.
        let name = if self.value("rpc_port") == "0" { "port" } else { "rpc_port" };
        self.give_port("mooncake-port", name);
        // One that is of no use is told once.
        if self.refused.is_empty() {
            self.give_port("rpc-port", name);
        }
        // Without it all addresses are listened on, as there.
        if self.given("rpc_address").is_some_and(|text| text != "0.0.0.0") {
            self.give_address("rpc-address", "rpc_address");
        }
        self.give_address("metrics-address", "metrics_host");
        self.give_port("metrics-port", "metrics_port");
        if self.value("enable_metric_reporting") == "true" {
            // As often as that program.
            self.give("summary-log-interval", "10s");
        }
        let has_metadata = self.value("enable_http_metadata_server") == "true";
        if has_metadata {
            self.give_address("http-metadata-server-host", "http_metadata_server_host");
            self.give_port("http-metadata-server-port", "http_metadata_server_port");
        }
        self.map_rest();
        if has_metadata {
            self.flags.push("--enable-http-metadata-server".to_owned());
        }
    }

    fn map_rest(&mut self) {
        for (name, flag) in DURATIONS {
            let outcome = self.given(name).map(|text| duration_ms(name, &text)).transpose();
            if let Some(Some(ms)) = self.made(name, outcome) {
                self.give(flag, format_args!("{ms}ms"));
            }
        }
        let outcome = strategy(&self.value("allocation_strategy"));
        if let Some(Some(strategy)) = self.made("allocation_strategy", outcome) {
            self.give("allocation-strategy", strategy);
        }
        for (name, flag) in IN_SECONDS {
            if let Some(seconds) = self.given(name) {
                self.give(flag, format_args!("{seconds}s"));
            }
        }
        for (name, flag) in RATIOS {
            if let Some(ratio) = self.given(name) {
                self.give(flag, ratio);
            }
        }
    }
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

const UNKNOWN: &str = "no flag has this name, and that program passes over it, too";

/// Why flags of the libraries do nothing.
pub(super) const OF_A_LIBRARY: &str = "it is for a library of that program; logs go to standard error, and --log_level and --log_format \
     say how";

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
