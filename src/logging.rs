//! The log: for people on a terminal, for machines otherwise.
//!
//! An ERROR line means that a person has to look. What peers do wrong is DEBUG, and counted.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::command::CommandError;

/// How to log; flags of every subcommand.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Form of the log on standard error: for people, or one JSON object a line; auto is for people
    /// on a terminal and JSON otherwise
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "FORMAT")]
    #[arg(help_heading = "Log")]
    pub(crate) log_format: LogFormat,

    /// What to log: error, warn, info, debug or trace, or directives as `mooring=debug,quinn=warn`;
    /// by default what RUST_LOG says, else info for servers and warn for clients
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Log")]
    pub(crate) log_level: Option<String>,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Starts the log on standard error.
///
/// # Errors
/// Arguments, if the level cannot be understood.
pub(crate) fn start(args: &LogArgs, serves: bool) -> Result<(), CommandError> {
    let filter = filter(args.log_level.as_deref(), serves)?;
    let terminal = std::io::stderr().is_terminal();
    let human = match args.log_format {
        LogFormat::Auto => terminal || !serves,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start is a test in the same process; the first log stays.
    let _ = if human {
        builder.with_ansi(terminal).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).try_init()
    };
    Ok(())
}

fn filter(level: Option<&str>, serves: bool) -> Result<EnvFilter, CommandError> {
    let by_default = if serves { "info" } else { "warn" };
    let (name, directives) = match level {
        Some(level) => ("--log-level", level.to_owned()),
        None => match std::env::var("RUST_LOG") {
            Ok(directives) if !directives.is_empty() => ("RUST_LOG", directives),
            _ => ("default", by_default.to_owned()),
        },
    };
    EnvFilter::try_new(&directives)
        .map_err(|error| CommandError::Arguments(format!("{name} = {directives}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_cannot_be_understood_is_refused_by_name() {
        let error = filter(Some("mooring=loud"), true).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().starts_with("--log-level = mooring=loud"), "{error}");
    }

    #[test]
    fn directives_are_understood() {
        let filter = filter(Some("warn,mooring=debug"), true).unwrap();
        assert!(filter.to_string().contains("mooring=debug"));
    }
}
