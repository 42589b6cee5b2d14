//! `mooring ls`: the segments, clients or keys of the master.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use mooring_proto::client::Client;
use mooring_proto::message::inspect::{
    ClientEntry, ClientState, KeyEntry, SegmentState, SegmentUse,
};
use serde_json::{Value, json};

use super::CommandError;
use super::connect::ClientArgs;
use super::table::{Align, Table, printable};
use super::units::human_bytes;
use crate::output;
use crate::telemetry::TracingArgs;

/// List segments, clients or keys
#[derive(Args, Clone, Debug)]
pub(crate) struct LsArgs {
    /// What to list
    #[arg(value_enum)]
    what: What,

    /// Most keys to list
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    limit: u64,

    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Mounted segments with their use
    Segments,
    /// Clients that ping
    Clients,
    /// Readable keys with the size of their objects, in no particular order
    Keys,
}

/// Asks and prints.
///
/// # Errors
/// What the master refused.
pub(crate) fn run(args: &LsArgs) -> Result<ExitCode, CommandError> {
    super::block_on(async {
        let client = args.client.connect_traced(&args.tracing).await?;
        match args.what {
            What::Segments => {
                let segments = client.list_segments().await?.segments;
                print(args, &segments, segment_json, segment_table)?;
            }
            What::Clients => {
                let clients = client.list_clients().await?.clients;
                print(args, &clients, client_json, client_table)?;
            }
            What::Keys => list_keys(args, &client).await?,
        }
        client.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn print<T>(
    args: &LsArgs,
    rows: &[T],
    as_json: fn(&T) -> Value,
    as_table: fn(&[T]) -> Table,
) -> Result<(), CommandError> {
    if args.client.json {
        output::print_line(Value::Array(rows.iter().map(as_json).collect()))?;
    } else {
        output::print(as_table(rows).render())?;
    }
    Ok(())
}

/// Prints page by page, so that millions of keys need no memory here. With `--json` each key is an
/// object on a line of its own.
async fn list_keys(args: &LsArgs, client: &Client) -> Result<(), CommandError> {
    let mut cursor = 0;
    let mut left = args.limit;
    while left > 0 {
        let limit = u32::try_from(left.min(KEYS_PER_PAGE)).unwrap_or(u32::MAX);
        let page = client.list_keys(cursor, limit).await?;
        let wanted = page.keys.iter().take(usize::try_from(left).unwrap_or(usize::MAX));
        let lines: String = wanted.map(|entry| key_line(entry, args.client.json) + "\n").collect();
        if !output::print(lines)? {
            break;
        }
        left = left.saturating_sub(page.keys.len() as u64);
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    Ok(())
}

fn key_line(entry: &KeyEntry, as_json: bool) -> String {
    // Keys are bytes; what is no text is shown as escapes, so that a line stays a line.
    let key = match std::str::from_utf8(&entry.key) {
        Ok(text) if printable(text) == text => text.to_owned(),
        _ => entry.key.escape_ascii().to_string(),
    };
    if as_json {
        json!({ "key": key, "size_bytes": entry.size_bytes }).to_string()
    } else {
        format!("{key}\t{}", entry.size_bytes)
    }
}

fn segment_json(used: &SegmentUse) -> Value {
    let segment = &used.entry.segment;
    json!({
        "slot": used.entry.slot,
        "generation": used.entry.generation,
        "segment": segment.segment.to_string(),
        "client": used.entry.client.to_string(),
        "endpoint": segment.endpoint,
        "size_bytes": segment.size_bytes,
        "allocated_bytes": used.allocated_bytes,
        "held_bytes": used.held_bytes,
        "state": segment_state(used.state),
        "time_left_ms": used.time_left_ms,
    })
}

fn segment_table(segments: &[SegmentUse]) -> Table {
    let mut table = Table::new(&[
        ("SLOT", Align::Right),
        ("STATE", Align::Left),
        ("SIZE", Align::Right),
        ("ALLOCATED", Align::Right),
        ("HELD", Align::Right),
        ("ENDPOINT", Align::Left),
        ("SEGMENT", Align::Left),
        ("CLIENT", Align::Left),
    ]);
    for used in segments {
        table.row([
            used.entry.slot.to_string(),
            segment_state(used.state).to_owned(),
            human_bytes(used.entry.segment.size_bytes),
            human_bytes(used.allocated_bytes),
            human_bytes(used.held_bytes),
            used.entry.segment.endpoint.clone(),
            used.entry.segment.segment.to_string(),
            used.entry.client.to_string(),
        ]);
    }
    table
}

fn client_json(client: &ClientEntry) -> Value {
    json!({
        "client": client.client.to_string(),
        "name": client.name,
        "state": client_state(client.state),
        "silent_ms": client.silent_ms,
        "segments": client.segments,
    })
}

fn client_table(clients: &[ClientEntry]) -> Table {
    let mut table = Table::new(&[
        ("CLIENT", Align::Left),
        ("STATE", Align::Left),
        ("SILENT", Align::Right),
        ("SEGMENTS", Align::Right),
        ("NAME", Align::Left),
    ]);
    for client in clients {
        table.row([
            client.client.to_string(),
            client_state(client.state).to_owned(),
            format!("{} ms", client.silent_ms),
            client.segments.to_string(),
            client.name.clone(),
        ]);
    }
    table
}

/// The name of a state, for people and scripts.
pub(crate) fn segment_state(state: SegmentState) -> &'static str {
    match state {
        SegmentState::Open => "open",
        SegmentState::Quarantined => "quarantined",
        SegmentState::Draining => "draining",
        SegmentState::Leaving => "leaving",
        SegmentState::Pending => "pending",
    }
}

/// The name of a state, for people and scripts.
pub(crate) fn client_state(state: ClientState) -> &'static str {
    match state {
        ClientState::Active => "active",
        ClientState::Suspected => "suspected",
    }
}

/// Enough that the round trips do not count, and a reply of about a megabyte.
const KEYS_PER_PAGE: u64 = 10_000;

#[cfg(test)]
mod tests {
    use serde_bytes::ByteBuf;

    use super::*;

    #[test]
    fn a_key_that_is_no_text_stays_on_its_line() {
        let entry = KeyEntry { key: ByteBuf::from(b"a\n\xff".to_vec()), size_bytes: 7 };
        assert_eq!(key_line(&entry, false), "a\\n\\xff\t7");
    }

    #[test]
    fn a_key_in_json_carries_its_size() {
        let entry = KeyEntry { key: ByteBuf::from(b"chat/1".to_vec()), size_bytes: 7 };
        assert_eq!(key_line(&entry, true), r#"{"key":"chat/1","size_bytes":7}"#);
    }
}
