//! The command line: what can be called, and where the value of each flag comes from.
//!
//! A flag is taken from the command line, else from its environment variable, else from the
//! configuration file, else it has its default. Everything is checked before anything starts, and
//! what is wrong ends the process with 2.

mod environment;
mod reference;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::bench::{self, BenchArgs};
use crate::command::CommandError;
use crate::command::exists::{self, ExistsArgs};
use crate::command::get::{self, GetArgs};
use crate::command::handoff::{self, HandoffArgs};
use crate::command::ls::{self, LsArgs};
use crate::command::put::{self, PutArgs};
use crate::command::rm::{self, RmArgs};
use crate::command::stats::{self, StatsArgs};
use crate::config::{self, Applied, ConfigFile};
use crate::demo::{self, DemoArgs};
use crate::descriptors::{self, COMMAND_FILES_MIN, MASTER_FILES_MIN};
use crate::logging::{self, LogArgs, Subject};
use crate::master::{self, MasterArgs};
use crate::mooncake_master;
use crate::output;
use crate::signals;
use crate::store::{self, StoreArgs};
use crate::top::{self, TopArgs};

/// The master of a distributed KV-cache store for LLM inference, its stores and its clients.
#[derive(Parser)]
#[command(name = "mooring", version, after_long_help = PRECEDENCE_HELP)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    log: LogArgs,

    /// Configuration file in TOML: one table for each subcommand, keys named as the flags
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<std::path::PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the master: the process that knows where every object lies
    Master(Box<MasterArgs>),
    /// Run the master with the flags of Mooncake's master, as a file of the name mooncake_master does
    #[command(disable_help_flag = true)]
    MooncakeMaster(MooncakeMasterArgs),
    /// Run a store: contribute memory to the pool and serve it to clients
    Store(Box<StoreArgs>),
    /// Put one object, or many
    Put(PutArgs),
    /// Get one object, or many
    Get(GetArgs),
    /// Tell which keys are readable
    Exists(ExistsArgs),
    /// Remove objects
    Rm(RmArgs),
    /// List segments, clients or keys
    Ls(LsArgs),
    /// Show the totals of the master
    Stats(StatsArgs),
    /// Watch a master at work
    Top(TopArgs),
    /// Look at a handoff directory, or empty it
    Handoff(HandoffArgs),
    /// Measure a master
    Bench(Box<BenchArgs>),
    /// Run a whole system on this machine and replay a trace of an inference engine on it
    Demo(Box<DemoArgs>),
    /// Print the effective configuration of a subcommand as TOML, with the source of each value
    Config(ConfigArgs),
    /// Print the flags in Markdown, for the documents of operators
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

#[derive(Args)]
struct MooncakeMasterArgs {
    /// Flags of Mooncake's master; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

#[derive(Args)]
struct ReferenceArgs {
    /// Whose flags
    #[arg(value_enum, value_name = "SUBJECT")]
    subject: ReferenceSubject,
}

#[derive(Clone, Copy, ValueEnum)]
enum ReferenceSubject {
    /// Every command, but for mooncake-master.
    Flags,
    /// Mooncake's master.
    Mooncake,
}

#[derive(Args)]
struct ConfigArgs {
    /// Whose; the flags of that subcommand may follow
    #[command(subcommand)]
    subject: Option<ConfigSubject>,
}

/// The subcommands that run for long, so that their configuration is worth a look beforehand.
#[derive(Subcommand)]
enum ConfigSubject {
    /// The configuration of the master (this is the default)
    Master(Box<MasterArgs>),
    /// The configuration of a store
    Store(Box<StoreArgs>),
    /// The configuration of the demo
    Demo(Box<DemoArgs>),
}

/// Runs what the command line says.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Before anything that takes time.
    if is_likely_for_server(&arguments)
        && let Err(error) = signals::answer_for_server()
    {
        output::note(format_args!("error: cannot hear signals: {error}"));
        return ExitCode::FAILURE;
    }
    let outcome = match mooncake_master::called_by(&arguments) {
        Some(rest) => run_mooncake_master(rest),
        None => run_arguments(arguments, &[]),
    };
    match outcome {
        Ok(code) => {
            logging::flush();
            code
        }
        Err(error) => {
            if !logging::last_words(&format!("error: {error}\n")) {
                output::note(format_args!("error: {error}"));
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// Whether arguments that were not read yet may call a server. To read them takes longer than a signal
/// may wait for, and an object may have the name of one too.
fn is_likely_for_server(arguments: &[OsString]) -> bool {
    mooncake_master::called_by(arguments).is_some()
        || arguments.iter().skip(1).any(|word| word == "master" || word == "store")
}

/// As the master of Mooncake, with the flags of that program.
fn run_mooncake_master(arguments: &[OsString]) -> Result<ExitCode, CommandError> {
    match mooncake_master::translate(&Cli::command(), arguments)? {
        mooncake_master::Asked::Told => Ok(ExitCode::SUCCESS),
        mooncake_master::Asked::Master { arguments, ineffective } => {
            run_arguments(arguments, &ineffective)
        }
        mooncake_master::Asked::Check { arguments, report, is_refused } => {
            output::print(report)?;
            if is_refused {
                return Ok(ExitCode::from(2));
            }
            check_master(&arguments)
        }
    }
}

/// Tells what a master would refuse of arguments, and starts none.
fn check_master(arguments: &[OsString]) -> Result<ExitCode, CommandError> {
    let command = environment::name_variables(Cli::command());
    let parsed = command.clone().try_get_matches_from(arguments);
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(Cli { command: Command::Master(args), .. }) => {
            if let Some(lack) = master::check(&args)? {
                output::note(format_args!("note: a master does not start with this yet: {lack}"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => Ok(report_usage(&command, &error)),
    }
}

fn run_arguments(
    mut arguments: Vec<OsString>,
    ineffective: &[String],
) -> Result<ExitCode, CommandError> {
    let command = environment::name_variables(Cli::command());
    // What is wrong with the arguments is told by the second parse, which also knows the file.
    let lenient = command.clone().ignore_errors(true);
    let mut given = match lenient.clone().try_get_matches_from(&arguments) {
        Ok(given) => given,
        Err(help) => return Ok(report_usage(&command, &help)),
    };
    if let Some(("config", subject)) = given.subcommand()
        && subject.subcommand_name().is_none()
    {
        arguments.push(DEFAULT_SUBJECT.into());
        given = lenient.clone().get_matches_from(&arguments);
    }
    if let Some(("bench", asked)) = given.subcommand()
        && asked.subcommand_name().is_none()
        && let Some(place) = arguments.iter().position(|argument| argument == "bench")
    {
        // Its flags stand behind it, so the name goes between.
        arguments.insert(place + 1, DEFAULT_BENCH.into());
        given = match lenient.try_get_matches_from(&arguments) {
            Ok(given) => given,
            Err(help) => return Ok(report_usage(&command, &help)),
        };
    }
    let file = match config::path_of(&arguments) {
        Some(path) => ConfigFile::read(&command, &path)?.apply(&given),
        None => Applied::default(),
    };
    let matches = match command.clone().try_get_matches_from(file.extend(&arguments)) {
        Ok(matches) => matches,
        Err(error) => return Ok(report_usage(&command, &error)),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return Ok(report_usage(&command, &error)),
    };
    if let Command::Config(ConfigArgs { subject: Some(subject) }) = &cli.command {
        let lack = match subject {
            ConfigSubject::Master(args) => master::check(args)?,
            ConfigSubject::Store(_) | ConfigSubject::Demo(_) => None,
        };
        output::print(config::effective(&command, &matches, &file))?;
        if let Some(lack) = lack {
            output::note(format_args!("note: a master does not start with this yet: {lack}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    logging::start(&cli.log, cli.command.log_subject())?;
    if !ineffective.is_empty() {
        let flags = ineffective.join(", ");
        tracing::warn!(flags, "these settings have no effect here; --help says why");
    }
    dispatch(&cli.command)
}

fn dispatch(command: &Command) -> Result<ExitCode, CommandError> {
    if command.log_subject() != Subject::Server {
        signals::leave_to_system();
    }
    descriptors::require(command.files_min())?;
    match command {
        Command::Master(args) => master::run(args),
        Command::MooncakeMaster(args) => run_mooncake_master(&args.flags),
        Command::Store(args) => store::run(args),
        Command::Put(args) => put::run(args),
        Command::Get(args) => get::run(args),
        Command::Exists(args) => exists::run(args),
        Command::Rm(args) => rm::run(args),
        Command::Ls(args) => ls::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Top(args) => top::run(args),
        Command::Handoff(args) => handoff::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Config(_) => Ok(ExitCode::SUCCESS),
        Command::Reference(args) => print_reference(args.subject),
    }
}

fn print_reference(subject: ReferenceSubject) -> Result<ExitCode, CommandError> {
    let text = match subject {
        ReferenceSubject::Flags => reference::text(&environment::name_variables(Cli::command())),
        ReferenceSubject::Mooncake => mooncake_master::reference(),
    };
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

impl Command {
    /// How many files it opens at least, beside those that it was started with.
    fn files_min(&self) -> usize {
        match self {
            Command::Master(_) => MASTER_FILES_MIN,
            // It calls the master with other flags; these open none.
            Command::MooncakeMaster(_) | Command::Config(_) | Command::Reference(_) => 0,
            _ => COMMAND_FILES_MIN,
        }
    }

    fn log_subject(&self) -> Subject {
        match self {
            Command::Master(_) | Command::MooncakeMaster(_) | Command::Store(_) => Subject::Server,
            Command::Bench(_) | Command::Demo(_) => Subject::Worker,
            _ => Subject::Command,
        }
    }
}

/// Shows help, the version or what is wrong with the arguments.
fn report_usage(command: &clap::Command, error: &clap::Error) -> ExitCode {
    // Help goes to standard output, and what is wrong to standard error.
    if let Err(fault) = output::reads_on(error.print())
        && !error.use_stderr()
    {
        output::note(format_args!("error: {fault}"));
        return ExitCode::FAILURE;
    }
    if let Some(hint) = environment::origin_of(command, error) {
        output::note(hint);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

const DEFAULT_SUBJECT: &str = "master";

const DEFAULT_BENCH: &str = "run";

const PRECEDENCE_HELP: &str = "\
Each flag is taken from the command line, else from its environment variable, else from the file \
that --config names, else it has its default. The file has one table for each subcommand \
([master], [store], [demo], [bench.run], [put], ...) and [client] for what all client commands \
share; flags that every subcommand has stand before the first table. `mooring config SUBCOMMAND` \
prints what results. Exit codes: 0 done, 1 refused or failed, 2 bad arguments or configuration. A \
reader of the output that has gone, as `head`, has seen enough: that is no failure.";

#[cfg(test)]
mod tests;
