//! `mooring handoff`: what a handoff directory holds, and how to empty it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::CommandError;
use super::table::pairs;
use super::units::human_bytes;
use crate::config::seconds;
use crate::handoff::{self, Admission, FailurePolicy, Inspection, Limits};
use crate::output;

/// Look at a handoff directory, or empty it
#[derive(Args, Clone, Debug)]
pub(crate) struct HandoffArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
enum Action {
    /// Tell what the directory holds and what a start of a master would do with it; every file of a
    /// snapshot is checked, and nothing is changed, claimed or locked
    Inspect(InspectArgs),
    /// Remove every snapshot, also a good one, every refusal and other record from the directory, so
    /// that the next start of a master is an ordinary one; refused while a master holds it
    Clear(ClearArgs),
}

#[derive(Args, Clone, Debug)]
struct InspectArgs {
    /// The handoff directory of a master
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print one JSON object: state, age_s, objects, segments, clients, bytes, format, held_ranges,
    /// would, reason, and more. While a master holds the directory, would is wait, reason is held, and
    /// if_killed tells what a start would do if that process were killed now
    #[arg(long)]
    json: bool,

    /// An older snapshot is not restored; as the master is told, also by its environment and its
    /// table in the file; a plain number is seconds, else with a unit
    #[arg(long, default_value = "120s", value_name = "TIME", value_parser = seconds)]
    #[arg(env = "MOORING_MASTER_HANDOFF_MAX_AGE_SEC")]
    handoff_max_age_sec: Duration,

    /// What a start does when a handoff was expected and cannot be used, serve_empty or refuse; as
    /// the master is told
    #[arg(long, default_value_t = FailurePolicy::ServeEmpty, value_name = "POLICY")]
    #[arg(env = "MOORING_MASTER_HANDOFF_FAILURE_POLICY")]
    handoff_failure_policy: FailurePolicy,

    /// Added to the estimate of the memory that a restore takes, in percent; as the master is told
    #[arg(long, default_value_t = 15, value_name = "PERCENT")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    #[arg(env = "MOORING_MASTER_HANDOFF_RESTORE_MARGIN_PERCENT")]
    handoff_restore_margin_percent: u32,
}

#[derive(Args, Clone, Debug)]
struct ClearArgs {
    /// The handoff directory of a master
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Remove the record that a start has refused, and nothing else: the next start, or one that
    /// waits, decides anew about the snapshot that is there, by all rules
    #[arg(long)]
    only_refusal: bool,
}

/// Looks or clears.
///
/// # Errors
/// When the directory cannot be read, is held by a master, or cannot be emptied.
pub(crate) fn run(args: &HandoffArgs) -> Result<ExitCode, CommandError> {
    match &args.action {
        Action::Inspect(args) => inspect(args),
        Action::Clear(args) => clear(args),
    }
}

fn inspect(args: &InspectArgs) -> Result<ExitCode, CommandError> {
    let margin_percent = args.handoff_restore_margin_percent;
    let admission = |available_bytes| Admission { available_bytes, margin_percent };
    let limits = Limits {
        max_age_ms: u64::try_from(args.handoff_max_age_sec.as_millis()).unwrap_or(u64::MAX),
        memory: handoff::available_bytes().map(admission),
    };
    let policy = args.handoff_failure_policy;
    let found = handoff::inspect(&args.directory, policy, &limits, now_wall_ms())
        .map_err(|error| CommandError::failed(args.directory.display(), error))?;
    if args.json {
        output::print_line(as_json(&found))?;
    } else {
        output::print(as_text(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn clear(args: &ClearArgs) -> Result<ExitCode, CommandError> {
    if args.only_refusal {
        let was_there = handoff::clear_refusal(&args.directory)
            .map_err(|error| CommandError::Failed(error.to_string()))?;
        let text = match was_there {
            true => "removed refused; the next start decides anew about what is left",
            false => "there is no refusal",
        };
        output::print_line(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let removed =
        handoff::clear(&args.directory).map_err(|error| CommandError::Failed(error.to_string()))?;
    if removed.is_empty() {
        output::print_line("nothing to remove")?;
    }
    for name in removed {
        output::print_line(format_args!("removed {name}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names are an interface for scripts.
fn as_json(found: &Inspection) -> Value {
    let totals = found.totals();
    let manifest = found.manifest();
    let held = found.held();
    let reason = found.cause().map_or("ok", |cause| cause.reason.name());
    let detail = found.cause().map(|cause| cause.detail.as_str());
    json!({
        "state": found.state,
        "age_s": found.age_s(),
        "objects": totals.objects,
        "segments": manifest.map_or(0, |manifest| manifest.pool.segments.len()),
        "clients": manifest.map_or(0, |manifest| manifest.clients.len()),
        "bytes": found.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes),
        "format": found.snapshot.as_ref().and_then(|snapshot| snapshot.format),
        "held_ranges": totals.holds,
        "would": found.would(),
        "reason": match (&found.obstacle, &held) {
            // As a start calls it that waits for the directory.
            (Some(_), _) => "directory_failed",
            (None, Some(_)) => "held",
            (None, None) => reason,
        },
        "detail": found.obstacle.as_deref().or(held.as_deref()).or(detail),
        // By what there is now; a process that leaves in order leaves something else.
        "if_killed": held.as_ref().map(|_| json!({
            "would": found.decision.name(),
            "reason": reason,
            "detail": detail,
        })),
        "shards": manifest.map_or(0, |manifest| manifest.shards.len()),
        "incarnation": manifest.map(|manifest| manifest.incarnation.to_string()),
        "version": manifest.map(|manifest| manifest.version.as_str()),
        "restore_memory_bytes": manifest.map(|_| handoff::estimate_bytes(&totals, 0)),
        "held_by_pid": found.held_by_pid,
        "serving": found.serving,
        "last_shutdown": found.last_shutdown,
    })
}

fn as_text(found: &Inspection) -> String {
    let mut rows = vec![("state", found.state.to_owned())];
    let decision = found.decision.name();
    match found.held_by_pid {
        None => {
            let why = found.cause().map_or(String::new(), |cause| format!(": {cause}"));
            let outcome = format!("{decision}{why}");
            match &found.obstacle {
                Some(obstacle) => {
                    rows.push(("a start would", format!("wait, not serving: {obstacle}")));
                    rows.push(("without that", outcome));
                }
                None => rows.push(("a start would", outcome)),
            }
        }
        Some(_) => {
            rows.push(("lock", found.held().unwrap_or_default()));
            let wait = "wait for that process to end, and then see what it has left";
            rows.push(("a start would", wait.to_owned()));
            let why = found.cause().map_or(String::new(), |cause| format!(": {}", cause.reason));
            rows.push(("if it were killed", format!("{decision}{why}")));
        }
    }
    if let Some(snapshot) = &found.snapshot {
        rows.push(("bytes", human_bytes(snapshot.bytes)));
        let format = snapshot.format.map_or("unknown".to_owned(), |format| format.to_string());
        rows.push(("format", format));
    }
    if let (Some(manifest), Some(age_s)) = (found.manifest(), found.age_s()) {
        let totals = found.totals();
        rows.push(("age", format!("{age_s:.1} s")));
        rows.push(("objects", totals.objects.to_string()));
        rows.push(("held ranges", totals.holds.to_string()));
        rows.push(("segments", manifest.pool.segments.len().to_string()));
        rows.push(("clients", manifest.clients.len().to_string()));
        rows.push(("shards", manifest.shards.len().to_string()));
        rows.push(("of master", format!("{} {}", manifest.incarnation, manifest.version)));
        rows.push(("memory to restore", human_bytes(handoff::estimate_bytes(&totals, 0))));
    }
    if let Some(serving) = &found.serving {
        let until = match found.held_by_pid {
            Some(_) => "now",
            None => "or until it ended without leaving",
        };
        let text = format!(
            "{} as process {}, {until}; its start: {}",
            serving.incarnation, serving.pid, serving.start
        );
        rows.push(("serving", text));
    }
    if let Some(left) = &found.last_shutdown {
        let detail = match left.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        let text = format!(
            "{}{detail}, {} objects in {:.2} s",
            left.result.name(),
            left.objects,
            left.duration_ms as f64 / 1e3
        );
        rows.push(("last shutdown", text));
    }
    pairs(&rows)
}

/// A clock before 1970 counts as 1970, and makes every snapshot one from the future.
fn now_wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_scripts_rely_on_are_there_also_for_an_empty_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let limits = Limits { max_age_ms: 120_000, memory: None };
        let found = handoff::inspect(scratch.path(), FailurePolicy::Refuse, &limits, now_wall_ms());
        let told = as_json(&found.unwrap());
        assert_eq!(told["state"], "empty");
        assert_eq!(told["would"], "serve_empty");
        assert_eq!(told["reason"], "none");
        for name in ["age_s", "format"] {
            assert!(told[name].is_null(), "{name}");
        }
        for name in ["objects", "segments", "clients", "bytes", "held_ranges"] {
            assert_eq!(told[name], 0, "{name}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_and_is_not_made() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("none");
        let limits = Limits { max_age_ms: 1, memory: None };
        assert!(handoff::inspect(&path, FailurePolicy::Refuse, &limits, 0).is_err());
        assert!(handoff::clear(&path).is_err());
        assert!(!path.exists());
    }
}
