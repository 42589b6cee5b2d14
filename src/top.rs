//! `mooring top`: a master at a glance, again and again.
//!
//! What is shown is decided by [`view::View`] and [`frame::frame`], which take answers and keys and
//! give lines of text; `terminal` and `fetch` are the thin rest.

mod detail;
mod fetch;
mod frame;
mod help;
mod rates;
mod status;
mod table;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::command::CommandError;
use crate::config::{host_and_port, refresh_interval};
use crate::output;
use frame::Size;
use view::View;

/// Show what a master is doing: rates, latencies, memory, clients, shards, handoff
#[derive(Args, Clone, Debug)]
pub(crate) struct TopArgs {
    /// Where the admin pages of the master are
    #[arg(long, default_value = "127.0.0.1:9003", value_name = "HOST:PORT", value_parser = host_and_port)]
    metrics: String,

    /// Between two looks; a plain number is seconds, else with the unit ms, s or m; at least 100ms
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = refresh_interval)]
    interval: Duration,

    /// Print one frame of plain text with all rows, 80 columns wide, and end; rates are those of one
    /// interval
    #[arg(long)]
    once: bool,
}

/// Shows the master.
///
/// # Errors
/// Arguments, if there is no terminal; a failure of the terminal, or with `--once` of the master.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, CommandError> {
    let view = View::new(args.metrics.clone());
    if args.once {
        return once(view, args.interval);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let text = "there is no terminal: --once prints one frame";
        return Err(CommandError::Arguments(text.to_owned()));
    }
    terminal::run(view, args.interval)
        .map_err(|error| CommandError::failed("cannot use the terminal", error))?;
    Ok(ExitCode::SUCCESS)
}

fn once(mut view: View, interval: Duration) -> Result<ExitCode, CommandError> {
    let failed = |reason: String| {
        CommandError::failed(format!("cannot ask the master at {}", view.address), reason)
    };
    let first = fetch::fetch(&view.address).map_err(failed)?;
    std::thread::sleep(interval);
    let second = fetch::fetch(&view.address).map_err(failed)?;
    view.take(Ok(first));
    view.take(Ok(second));
    let mut text = String::new();
    for line in frame::frame(&view, Size { columns: ONCE_COLUMNS, lines: None }) {
        text.push_str(line.to_string().trim_end());
        text.push('\n');
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Readable everywhere.
const ONCE_COLUMNS: usize = 80;
