//! `mooring stats`: the totals of the master.

use std::process::ExitCode;

use clap::Args;
use mooring_proto::message::inspect::StatsReply;
use serde_json::{Value, json};

use super::CommandError;
use super::connect::ClientArgs;
use super::table::{Align, Table, pairs};
use super::units::human_bytes;
use crate::output;
use crate::telemetry::TracingArgs;

/// Show objects, bytes, segments and clients of the master, and its shards
#[derive(Args, Clone, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// Asks and prints.
///
/// # Errors
/// What the master refused.
pub(crate) fn run(args: &StatsArgs) -> Result<ExitCode, CommandError> {
    let stats = super::block_on(async {
        let client = args.client.connect_traced(&args.tracing).await?;
        let stats = client.stats().await?;
        client.close().await;
        Ok(stats)
    })?;
    if args.client.json {
        output::print_line(as_json(&stats))?;
    } else {
        output::print(as_text(&stats))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names are an interface for scripts.
fn as_json(stats: &StatsReply) -> Value {
    let shards: Vec<Value> = stats
        .shards
        .iter()
        .map(|shard| {
            json!({
                "objects": shard.objects,
                "allocated_bytes": shard.allocated_bytes,
                "queue": shard.queue,
            })
        })
        .collect();
    json!({
        "objects": stats.objects,
        "allocated_bytes": stats.allocated_bytes,
        "capacity_bytes": stats.capacity_bytes,
        "held_bytes": stats.held_bytes,
        "segments": stats.segments,
        "clients": stats.clients,
        "evicted_objects": stats.evicted_objects,
        "evicted_bytes": stats.evicted_bytes,
        "put_refused": stats.put_refused,
        "resident_bytes": stats.resident_bytes,
        "uptime_s": stats.uptime_ms as f64 / 1e3,
        "shards": shards,
    })
}

fn as_text(stats: &StatsReply) -> String {
    let used = match stats.capacity_bytes {
        0 => String::new(),
        capacity => format!(", {:.1} % used", stats.allocated_bytes as f64 / capacity as f64 * 1e2),
    };
    let totals = pairs(&[
        ("objects", stats.objects.to_string()),
        ("allocated", human_bytes(stats.allocated_bytes)),
        ("capacity", format!("{}{used}", human_bytes(stats.capacity_bytes))),
        ("held", human_bytes(stats.held_bytes)),
        ("segments", stats.segments.to_string()),
        ("clients", stats.clients.to_string()),
        (
            "evicted",
            format!("{} objects, {}", stats.evicted_objects, human_bytes(stats.evicted_bytes)),
        ),
        ("puts refused", stats.put_refused.to_string()),
        ("resident", human_bytes(stats.resident_bytes)),
        ("uptime", format!("{:.1} s", stats.uptime_ms as f64 / 1e3)),
    ]);
    let mut shards = Table::new(&[
        ("SHARD", Align::Right),
        ("OBJECTS", Align::Right),
        ("ALLOCATED", Align::Right),
        ("QUEUE", Align::Right),
    ]);
    for (index, shard) in stats.shards.iter().enumerate() {
        shards.row([
            index.to_string(),
            shard.objects.to_string(),
            human_bytes(shard.allocated_bytes),
            shard.queue.to_string(),
        ]);
    }
    format!("{totals}\n{}", shards.render())
}

#[cfg(test)]
mod tests {
    use mooring_proto::message::inspect::ShardStats;

    use super::*;

    #[test]
    fn the_names_that_scripts_rely_on_are_there() {
        let stats = StatsReply { shards: vec![ShardStats::default()], ..StatsReply::default() };
        let told = as_json(&stats);
        let names = [
            "objects",
            "allocated_bytes",
            "capacity_bytes",
            "held_bytes",
            "segments",
            "clients",
            "resident_bytes",
            "uptime_s",
        ];
        for name in names {
            assert!(told[name].is_number(), "{name}");
        }
        for name in ["objects", "allocated_bytes", "queue"] {
            assert!(told["shards"][0][name].is_number(), "shards[].{name}");
        }
    }

    #[test]
    fn an_empty_master_has_no_use_in_percent() {
        assert!(!as_text(&StatsReply::default()).contains('%'));
    }
}
