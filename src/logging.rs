//! The log: for people on a terminal, for machines otherwise.
//!
//! An ERROR line means that a person has to look. What peers do wrong is DEBUG, and counted. What is
//! logged can be changed while the process runs, and a line that repeats itself is held back.

mod levels;
mod limit;
mod lines;

use std::backtrace::BacktraceStatus;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::command::CommandError;
use limit::Limiter;
use lines::Lines;

/// How to log; flags of every subcommand.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Form of the log on standard error: for people, or one JSON object a line; auto is for people
    /// on a terminal and JSON otherwise
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "FORMAT")]
    #[arg(help_heading = "Log")]
    pub(crate) log_format: LogFormat,

    /// What to log: off, error, warn, info, debug or trace, or directives as
    /// `mooring=debug,quinn=warn`; by default what RUST_LOG says, else info for servers, error for
    /// client commands, and warn for what runs longer. A master takes others on its admin page
    /// /log_level
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

/// What is logged about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A server, whose log tells how it is.
    Server,
    /// A client that works for a while, whose log is for its mishaps.
    Worker,
    /// A client command: it says itself what went wrong, so that the log would say it twice.
    Command,
}

/// Starts the log on standard error.
///
/// # Errors
/// Arguments, if the level cannot be understood.
pub(crate) fn start(args: &LogArgs, subject: Subject) -> Result<(), CommandError> {
    let (filter, directives) = filter(args.log_level.as_deref(), subject)?;
    let terminal = std::io::stderr().is_terminal();
    let human = match args.log_format {
        LogFormat::Auto => terminal || subject != Subject::Server,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    // By default a line that cannot be written is told on the same standard error, and that panics:
    // a full disk or a dead reader of the log would end the process.
    let lines = fmt::layer().with_writer(writer(subject)?).log_internal_errors(false);
    let lines = if human {
        lines.with_ansi(terminal).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(false).boxed()
    };
    let (levels, handle) = reload::Layer::new(filter);
    let log = Registry::default().with(lines).with(levels).with(limit::Shared(&LIMITER));
    // A second start is a test in the same process; the first log stays.
    if log.try_init().is_ok() {
        let _ = LEVELS.set(Levels { handle, at_start: directives });
        if subject == Subject::Server {
            tell_left_out_again_and_again();
        }
    }
    Ok(())
}

/// Where the lines go. Those of a server wait for a thread that writes them; a command writes its few
/// itself.
fn writer(subject: Subject) -> Result<BoxMakeWriter, CommandError> {
    if subject != Subject::Server {
        return Ok(BoxMakeWriter::new(std::io::stderr));
    }
    let failed = |error| CommandError::failed("cannot start a thread for the log", error);
    let lines = Lines::start(std::io::stderr()).map_err(failed)?;
    // A second start is a test in the same process.
    if LINES.set(lines.clone()).is_ok() {
        std::panic::set_hook(Box::new(tell_panic));
    }
    Ok(BoxMakeWriter::new(lines))
}

/// A panic in the words of the standard library, by the same way as the lines: whoever ends the process
/// for it does not wait for a reader that hangs.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let backtrace = std::backtrace::Backtrace::capture();
    let shown = match backtrace.status() {
        BacktraceStatus::Captured => format!("\nstack backtrace:\n{backtrace}"),
        _ => String::new(),
    };
    // It may be the last that the process tells.
    last_words(&format!("\nthread '{name}' {panic}{shown}\n"));
}

/// Writes the last words of a process by the way of its lines, if it has one of its own for them; gives
/// whether it has.
pub(crate) fn last_words(text: &str) -> bool {
    let Some(lines) = LINES.get() else { return false };
    lines.push(text.as_bytes());
    flush();
    true
}

/// Waits a moment until the lines so far are written: for the end of a process.
pub(crate) fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(LAST_LINES_TIME);
    }
}

/// Many times what a reader takes that reads.
const LAST_LINES_TIME: Duration = Duration::from_millis(100);

/// The directives that are in effect; `None` without a log.
pub(crate) fn levels() -> Option<String> {
    LEVELS.get()?.handle.with_current(EnvFilter::to_string).ok()
}

/// Logs by other directives from now on, or with `None` by those of the start, and says so in the log.
///
/// # Errors
/// What cannot be understood; then nothing changes.
pub(crate) fn set_levels(directives: Option<&str>) -> Result<(), String> {
    let Some(levels) = LEVELS.get() else { return Err("there is no log".to_owned()) };
    let directives = directives.unwrap_or(&levels.at_start);
    let filter = levels::strict(directives)?;
    let change = Change { before: self::levels().unwrap_or_default(), after: filter.to_string() };
    // The line is of no use where nobody sees it: it stands before a change that would hide it.
    let is_told = change.tell_before(&filter);
    levels.handle.reload(filter).map_err(|error| error.to_string())?;
    if !is_told {
        change.tell_after();
    }
    Ok(())
}

/// Of what is logged.
struct Change {
    before: String,
    after: String,
}

impl Change {
    /// Tells it if it shows now and may not show later; gives whether it was told.
    fn tell_before(&self, next: &EnvFilter) -> bool {
        let may_show_later = next.max_level_hint().is_none_or(|most| most >= LevelFilter::INFO);
        if tracing::enabled!(Level::INFO) {
            self.tell();
        } else if !may_show_later && tracing::enabled!(Level::WARN) {
            self.tell_louder();
        } else {
            return false;
        }
        true
    }

    fn tell_after(&self) {
        if tracing::enabled!(Level::INFO) { self.tell() } else { self.tell_louder() }
    }

    fn tell(&self) {
        tracing::info!(before = %self.before, after = %self.after, "{CHANGED}");
    }

    /// Between levels that show no INFO.
    fn tell_louder(&self) {
        tracing::warn!(before = %self.before, after = %self.after, "{CHANGED}");
    }
}

const CHANGED: &str = "what is logged was changed over the admin page";

/// Writes how many lines were left out or lost since this was written last.
pub(crate) fn tell_left_out() {
    // What is told while there is no room is lost, and what was to be told with it.
    if LINES.get().is_some_and(|lines| !lines.has_room()) {
        return;
    }
    LIMITER.tell_left_out();
    let lost = LINES.get().map_or(0, Lines::take_lost);
    if lost > 0 {
        tracing::warn!(lines = lost, "the log was not read in time, and lines of it are lost");
    }
}

fn tell_left_out_again_and_again() {
    let tell = || {
        loop {
            std::thread::sleep(limit::INTERVAL);
            tell_left_out();
        }
    };
    // Without the thread it is told when the process leaves.
    let _ = std::thread::Builder::new().name("log".to_owned()).spawn(tell);
}

/// What is logged, to be changed.
struct Levels {
    handle: reload::Handle<EnvFilter, Layers>,
    at_start: String,
}

/// What makes the lines.
type Layers = tracing_subscriber::layer::Layered<Box<dyn Layer<Registry> + Send + Sync>, Registry>;

static LEVELS: OnceLock<Levels> = OnceLock::new();

/// Of a server.
static LINES: OnceLock<Lines> = OnceLock::new();

static LIMITER: LazyLock<Limiter> = LazyLock::new(Limiter::new);

/// The filter, and the directives that it is made of.
fn filter(level: Option<&str>, subject: Subject) -> Result<(EnvFilter, String), CommandError> {
    let by_default = match subject {
        Subject::Server => "info",
        Subject::Worker => "warn",
        Subject::Command => "error",
    };
    let (name, directives, filter) = match level {
        Some(level) => ("--log-level", level.to_owned(), levels::strict(level)),
        None => match std::env::var("RUST_LOG") {
            Ok(directives) if !directives.is_empty() => {
                let filter = levels::lenient(&directives);
                ("RUST_LOG", directives, filter)
            }
            _ => ("default", by_default.to_owned(), levels::strict(by_default)),
        },
    };
    let told = |text| CommandError::Arguments(format!("{name} = {directives}: {text}"));
    Ok((filter.map_err(told)?, directives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_cannot_be_understood_is_refused_by_name() {
        for level in ["mooring=loud", "bogus", "inf", "", "info,", "info,loud,quinn=warn"] {
            let error = filter(Some(level), Subject::Server).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().starts_with(&format!("--log-level = {level}:")), "{error}");
        }
    }

    #[test]
    fn directives_are_understood() {
        for level in ["warn,mooring=debug", "off,mooring=debug", "WARN,[span]=info,mooring=debug"] {
            let (filter, directives) = filter(Some(level), Subject::Server).unwrap();
            assert!(filter.to_string().contains("mooring=debug"), "{filter}");
            assert_eq!(directives, level);
        }
    }
}
