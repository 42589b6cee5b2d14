//! Every flag in Markdown, from the definitions that read them.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The commands below this one, each with its flags.
pub(super) fn text(command: &Command) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "## Every command\n");
    flags(&mut text, command);
    for subcommand in command.get_subcommands() {
        describe(&mut text, &format!("mooring {}", subcommand.get_name()), subcommand);
    }
    text
}

fn describe(text: &mut String, path: &str, command: &Command) {
    if command.is_hide_set() || NOT_HERE.contains(&command.get_name()) {
        return;
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "## `{path}`\n\n{about}.\n");
    flags(text, command);
    for subcommand in command.get_subcommands() {
        describe(text, &format!("{path} {}", subcommand.get_name()), subcommand);
    }
}

/// One table for each heading, in the order in which the headings come.
fn flags(text: &mut String, command: &Command) {
    let is_told = |arg: &&Arg| !arg.is_hide_set() && !BUILT_IN.contains(&arg.get_id().as_str());
    let args: Vec<&Arg> = command.get_arguments().filter(is_told).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    // What has no heading would seem to be below the heading before.
    headings.sort_by_key(Option::is_some);
    for heading in headings {
        if let Some(heading) = heading {
            let _ = writeln!(text, "### {heading}\n");
        }
        text.push_str("| flag | default | variable | meaning |\n| --- | --- | --- | --- |\n");
        for arg in args.iter().filter(|arg| arg.get_help_heading() == heading) {
            let variable = arg.get_env().map(|name| code(&name.to_string_lossy()));
            let (variable, meaning) = (variable.unwrap_or_default(), meaning(arg));
            let _ = writeln!(text, "| {} | {} | {variable} | {meaning} |", name(arg), default(arg));
        }
        text.push('\n');
    }
}

fn name(arg: &Arg) -> String {
    let values: Vec<&str> = arg.get_value_names().into_iter().flatten().map(|it| &**it).collect();
    let values = values.join(" ");
    match arg.get_long() {
        None => code(&values),
        Some(flag) if arg.get_action().takes_values() => code(&format!("--{flag} {values}")),
        Some(flag) => code(&format!("--{flag}")),
    }
}

fn default(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let values: Vec<_> = arg.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    if values.is_empty() { String::new() } else { code(&values.join(" ")) }
}

/// The help, with the values that may be given where they are few.
fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if arg.get_action().takes_values() {
        let values = arg.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set());
        let values: Vec<String> = values.map(|value| code(value.get_name())).collect();
        if !values.is_empty() {
            let _ = write!(text, "; one of {}", values.join(", "));
        }
    }
    text.replace('\n', " ").replace('|', "\\|")
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// What shows the flags of others, and what has a document of its own.
const NOT_HERE: [&str; 3] = ["help", "config", "mooncake-master"];

const BUILT_IN: [&str; 2] = ["help", "version"];
