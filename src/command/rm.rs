//! `mooring rm`: removes objects.

use std::process::ExitCode;

use clap::Args;
use mooring_proto::Refusal;
use serde_json::json;

use super::CommandError;
use super::connect::ClientArgs;
use super::table::printable;
use crate::output;
use crate::telemetry::TracingArgs;

/// Remove objects by their keys, or all of them
#[derive(Args, Clone, Debug)]
pub(crate) struct RmArgs {
    /// The keys
    #[arg(value_name = "KEY", required_unless_present = "all", conflicts_with = "all")]
    keys: Vec<String>,

    /// Remove every complete object
    #[arg(long)]
    all: bool,

    /// Remove objects that readers have leased too; their space is held until the leases end
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// Removes and says what went.
///
/// # Errors
/// What the master refused as a whole. Keys that stay are printed, and the exit code is 1.
pub(crate) fn run(args: &RmArgs) -> Result<ExitCode, CommandError> {
    if args.all { super::block_on(remove_all(args)) } else { super::block_on(remove_keys(args)) }
}

async fn remove_all(args: &RmArgs) -> Result<ExitCode, CommandError> {
    let client = args.client.connect_traced(&args.tracing).await?;
    let reply = client.remove_all(args.force).await?;
    client.close().await;
    if args.client.json {
        output::print_line(json!({ "removed": reply.removed, "kept": reply.kept }))?;
    } else {
        let (removed, kept) = (reply.removed, reply.kept);
        output::print_line(format_args!(
            "removed {removed}, kept {kept} that are leased or being written"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove_keys(args: &RmArgs) -> Result<ExitCode, CommandError> {
    let client = args.client.connect_traced(&args.tracing).await?;
    let answers = client.remove(&args.keys, args.force).await?;
    client.close().await;
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    print_answers(args, &answers)?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_answers(args: &RmArgs, answers: &[Result<(), Refusal>]) -> Result<(), CommandError> {
    let told = answers.iter().map(|answer| match answer {
        Ok(()) => "removed".to_owned(),
        Err(refusal) => refusal.to_string(),
    });
    let told = args.keys.iter().zip(told);
    if args.client.json {
        let told: serde_json::Map<_, _> =
            told.map(|(key, text)| (key.clone(), text.into())).collect();
        output::print_line(serde_json::Value::Object(told))?;
    } else {
        let line =
            |(key, text): (&String, String)| format!("{} {}\n", printable(key), printable(&text));
        output::print(told.map(line).collect::<String>())?;
    }
    Ok(())
}
