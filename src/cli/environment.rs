//! The environment variable of each flag.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};

/// Gives each flag that has no environment variable yet one, named by its subcommand and itself:
/// `MOORING_MASTER_RPC_PORT` is `mooring master --rpc-port`. Flags of every subcommand have no
/// subcommand in their name.
pub(super) fn name_variables(command: Command) -> Command {
    name_below(command, "")
}

fn name_below(command: Command, path: &str) -> Command {
    command.mut_args(|arg| name_variable(arg, path)).mut_subcommands(|subcommand| {
        let name = subcommand.get_name().to_owned();
        // `config master` reads what `master` reads.
        let below = if name == "config" { path.to_owned() } else { format!("{path}{name}_") };
        name_below(subcommand, &below)
    })
}

fn name_variable(arg: Arg, path: &str) -> Arg {
    let arg = match arg.get_long() {
        Some(flag) if arg.get_env().is_none() => {
            let name = format!("mooring_{path}{flag}").to_uppercase().replace('-', "_");
            arg.env(name)
        }
        _ => arg,
    };
    // A switch in the environment or the file may also be written 1, yes or on.
    match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(clap::builder::BoolishValueParser::new()),
        _ => arg,
    }
}

/// Where a refused value comes from, if it comes from the environment: the message about it names
/// only the flag.
pub(super) fn origin_of(command: &Command, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(usage)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = usage.strip_prefix("--")?.split([' ', '=']).next()?;
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let mut variables = Vec::new();
    collect_variables(command, flag, &mut variables);
    variables
        .into_iter()
        .find(|name| std::env::var_os(name).is_some_and(|found| found == OsStr::new(value)))
        .map(|name| format!("  note: this value is in the environment variable {name}"))
}

fn collect_variables(command: &Command, flag: &str, variables: &mut Vec<String>) {
    let of_flag = command.get_arguments().filter(|arg| arg.get_long() == Some(flag));
    variables.extend(of_flag.filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned())));
    for subcommand in command.get_subcommands() {
        collect_variables(subcommand, flag, variables);
    }
}
