//! What results from all sources, as TOML that can be used as a configuration file.

use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::Applied;

/// The effective values of the subcommand below `config`, each with its source.
pub(crate) fn effective(command: &Command, matches: &ArgMatches, file: &Applied) -> String {
    let mut text = String::new();
    if let Some(path) = &file.path {
        let _ = writeln!(text, "# configuration file: {}", path.display());
    }
    let Some((_, config_matches)) = matches.subcommand() else { return text };
    let Some((name, subject_matches)) = config_matches.subcommand() else { return text };
    for arg in command.get_arguments().filter(|arg| is_setting(arg)) {
        write_line(&mut text, arg, subject_matches, file.contains(long(arg)));
    }
    let _ = writeln!(text, "\n[{name}]");
    let subject = command.find_subcommand("config").and_then(|it| it.find_subcommand(name));
    for arg in subject.into_iter().flat_map(Command::get_arguments).filter(|arg| is_setting(arg)) {
        write_line(&mut text, arg, subject_matches, file.contains(long(arg)));
    }
    text
}

fn is_setting(arg: &Arg) -> bool {
    arg.get_long().is_some_and(|flag| !["help", "version", "config"].contains(&flag))
}

fn long(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

fn write_line(text: &mut String, arg: &Arg, matches: &ArgMatches, in_file: bool) {
    let id = arg.get_id().as_str();
    let values: Vec<String> = matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|value| toml_text(&value.to_string_lossy()))
        .collect();
    let flag = long(arg);
    let _ = match values.as_slice() {
        [] => writeln!(text, "# {flag} is not set"),
        [value] => writeln!(text, "{flag} = {value} # {}", source(arg, matches, in_file)),
        _ => writeln!(text, "{flag} = [{}] # {}", values.join(", "), source(arg, matches, in_file)),
    };
}

fn source(arg: &Arg, matches: &ArgMatches, in_file: bool) -> String {
    match matches.value_source(arg.get_id().as_str()) {
        // What the file gives stands on the command line like a flag.
        Some(ValueSource::CommandLine) if in_file => "file".to_owned(),
        Some(ValueSource::CommandLine) => "flag".to_owned(),
        Some(ValueSource::EnvVariable) => {
            let name = arg.get_env().map(|name| name.to_string_lossy().into_owned());
            format!("env {}", name.unwrap_or_default())
        }
        _ => "default".to_owned(),
    }
}

/// A number or a switch as such, everything else in quotes, so that reading it back gives the same
/// text.
fn toml_text(value: &str) -> String {
    let plain = match value.parse::<toml::Value>() {
        Ok(parsed @ (toml::Value::Integer(_) | toml::Value::Boolean(_))) => {
            parsed.to_string() == value
        }
        Ok(toml::Value::Float(_)) => true,
        _ => false,
    };
    if plain { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() }
}
