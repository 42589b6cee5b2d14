//! `mooring exists`: whether keys are readable.

use std::process::ExitCode;

use clap::Args;

use super::CommandError;
use super::connect::ClientArgs;
use super::table::printable;
use crate::output;
use crate::telemetry::TracingArgs;

/// Say for each key whether it has a readable object; ends with 1 if one has none
#[derive(Args, Clone, Debug)]
pub(crate) struct ExistsArgs {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,

    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// Asks and prints one line for each key.
///
/// # Errors
/// What the master refused.
pub(crate) fn run(args: &ExistsArgs) -> Result<ExitCode, CommandError> {
    let readable = super::block_on(ask(args))?;
    if args.client.json {
        let answers: serde_json::Map<_, _> =
            args.keys.iter().cloned().zip(readable.iter().map(|yes| (*yes).into())).collect();
        output::print_line(serde_json::Value::Object(answers))?;
    } else {
        let mut lines = String::new();
        for (key, yes) in args.keys.iter().zip(&readable) {
            lines += &format!("{} {}\n", printable(key), if *yes { "yes" } else { "no" });
        }
        output::print(lines)?;
    }
    Ok(if readable.iter().all(|yes| *yes) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ask(args: &ExistsArgs) -> Result<Vec<bool>, CommandError> {
    let client = args.client.connect_traced(&args.tracing).await?;
    let readable = client.exist(&args.keys, false).await?;
    client.close().await;
    Ok(readable)
}
