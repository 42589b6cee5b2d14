//! The configuration file: its values take the place of flags that nothing else gives.
//!
//! They are put on the command line, so that what clap checks between flags (one that needs
//! another, two that exclude each other) is checked for them as well, whatever source each comes from.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

use crate::command::CommandError;

/// A file whose tables, keys and values are all known to the command line.
pub(crate) struct ConfigFile {
    path: PathBuf,
    injections: Vec<Injection>,
}

/// What a file adds to one command line.
#[derive(Default)]
pub(crate) struct Applied {
    /// The file, if there is one.
    pub(crate) path: Option<PathBuf>,
    flags: Vec<String>,
    arguments: Vec<OsString>,
}

impl Applied {
    /// Whether the value of a flag is that of the file.
    pub(crate) fn contains(&self, flag: &str) -> bool {
        self.flags.iter().any(|applied| applied == flag)
    }

    /// The command line with what the file adds.
    pub(crate) fn extend(&self, arguments: &[OsString]) -> Vec<OsString> {
        let mut extended = arguments.to_vec();
        let end = extended.iter().position(|argument| argument == "--").unwrap_or(extended.len());
        extended.splice(end..end, self.arguments.iter().cloned());
        extended
    }
}

/// The file that `--config` or its environment variable names. It is looked for before the command
/// line is parsed, because it adds to it.
pub(crate) fn path_of(arguments: &[OsString]) -> Option<PathBuf> {
    let mut path = std::env::var_os("MOORING_CONFIG").filter(|path| !path.is_empty());
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            path = arguments.next().cloned();
        } else if let Some(value) =
            argument.to_str().and_then(|text| text.strip_prefix("--config="))
        {
            path = Some(value.into());
        }
    }
    path.map(PathBuf::from)
}

impl ConfigFile {
    /// Reads a file and checks it against the whole command line, not only the subcommand that is
    /// called.
    ///
    /// # Errors
    /// Arguments, naming file, table and key: for a file that cannot be read, an unknown table or
    /// key, and a value that its flag does not take.
    pub(crate) fn read(command: &Command, path: &Path) -> Result<ConfigFile, CommandError> {
        let wrong = |text: String| CommandError::Arguments(format!("{}: {text}", path.display()));
        let text = text_of(path).map_err(wrong)?;
        let injections = ConfigFile::parse(command, &text).map_err(wrong)?;
        Ok(ConfigFile { path: path.to_owned(), injections })
    }

    /// Reads what stands in the file: what it sets, without what is set again.
    pub(super) fn parse(command: &Command, text: &str) -> Result<Vec<Injection>, String> {
        let table = text.parse::<toml::Table>().map_err(|error| error.to_string())?;
        let mut settings = Vec::new();
        flatten("", &table, &mut settings);
        // What commands share comes first, so that the table of a command overrides it.
        settings.sort_by_key(|setting| match setting.table.as_str() {
            CLIENT_TABLE => 0,
            INSPECT_PATH => 2,
            _ => 1,
        });

        let commands = leaves(command);
        let mut injections: Vec<Injection> = Vec::new();
        for setting in &settings {
            for injection in place(&commands, setting)? {
                injections.retain(|former| !former.replaced_by(&injection));
                injections.push(injection);
            }
        }
        Ok(injections)
    }

    /// What the file adds to a command line that was parsed as far as possible: the flags of its
    /// subcommand that neither it nor the environment gives.
    pub(crate) fn apply(&self, matches: &ArgMatches) -> Applied {
        let (subcommand, matches) = innermost(matches);
        let mut applied = Applied { path: Some(self.path.clone()), ..Applied::default() };
        for injection in &self.injections {
            let given = || matches.value_source(&injection.id);
            let concerned = injection.path.is_empty() || injection.path == subcommand;
            if concerned && matches!(given(), None | Some(ValueSource::DefaultValue)) {
                applied.flags.push(injection.flag.clone());
                applied.arguments.extend(injection.arguments());
            }
        }
        applied
    }
}

/// The whole file; not one without end, as some devices are.
fn text_of(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot read: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes are no configuration"));
    }
    String::from_utf8(bytes).map_err(|error| format!("cannot read: {error}"))
}

/// The subcommand that is called, as tables name it, with what was given to it. What `config` shows
/// is that of the subcommand itself.
fn innermost(matches: &ArgMatches) -> (String, &ArgMatches) {
    let (mut path, mut innermost) = (String::new(), matches);
    while let Some((name, inner)) = innermost.subcommand() {
        if !(path.is_empty() && name == "config") {
            path = below(&path, name);
        }
        innermost = inner;
    }
    (path, innermost)
}

/// One line of the file.
struct Setting {
    table: String,
    key: String,
    value: Value,
}

/// A flag of a subcommand with its values.
pub(super) struct Injection {
    path: String,
    pub(super) flag: String,
    id: String,
    values: Vec<String>,
    is_switch: bool,
}

impl Injection {
    fn replaced_by(&self, later: &Injection) -> bool {
        self.path == later.path && self.flag == later.flag
    }

    /// As it would stand on the command line.
    fn arguments(&self) -> Vec<OsString> {
        if self.is_switch {
            // A switch that is off is not on the command line at all.
            let on = self.values.iter().any(|value| is_on(value));
            return if on { vec![format!("--{}", self.flag).into()] } else { Vec::new() };
        }
        let argument = |value: &String| OsString::from(format!("--{}={value}", self.flag));
        self.values.iter().map(argument).collect()
    }
}

/// Whether a text that the parser of switches has accepted means yes.
fn is_on(text: &str) -> bool {
    ["y", "yes", "t", "true", "on", "1"].contains(&text.to_lowercase().as_str())
}

fn flatten(name: &str, table: &toml::Table, settings: &mut Vec<Setting>) {
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                let below = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                // A table without keys is still a table whose name may be wrong.
                if inner.is_empty() {
                    let (table, key) = (below.clone(), String::new());
                    settings.push(Setting { table, key, value: value.clone() });
                }
                flatten(&below, inner, settings);
            }
            _ => {
                let (table, key) = (name.to_owned(), key.clone());
                settings.push(Setting { table, key, value: value.clone() });
            }
        }
    }
}

/// Every subcommand that has no further ones, by its table, and all flags that it takes from it.
/// The empty name stands for the flags of every subcommand.
fn leaves(command: &Command) -> Vec<(String, Vec<Arg>)> {
    let mut found = vec![(String::new(), flags_of(command))];
    collect_leaves(command, "", &mut found);
    found
}

fn collect_leaves(command: &Command, path: &str, found: &mut Vec<(String, Vec<Arg>)>) {
    for subcommand in command.get_subcommands().filter(|it| it.get_name() != "config") {
        let below = below(path, subcommand.get_name());
        let flags = flags_of(subcommand);
        if !subcommand.has_subcommands() || !flags.is_empty() {
            found.push((below.clone(), flags));
        }
        collect_leaves(subcommand, &below, found);
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn flags_of(command: &Command) -> Vec<Arg> {
    let flags = command.get_arguments().filter(|arg| {
        arg.get_long().is_some_and(|flag| !["help", "version", "config"].contains(&flag))
    });
    flags.cloned().collect()
}

/// The subcommands whose flag a setting is, with its value checked.
fn place(commands: &[(String, Vec<Arg>)], setting: &Setting) -> Result<Vec<Injection>, String> {
    let Setting { table, key, value } = setting;
    let concerns = |path: &str| {
        path == table
            || (table == CLIENT_TABLE && is_client(path))
            || (table == MASTER_TABLE && path == INSPECT_PATH)
    };
    let concerned: Vec<_> = commands.iter().filter(|(path, _)| concerns(path)).collect();
    if concerned.is_empty() {
        return Err(format!("unknown table [{table}], allowed are {}", tables(commands)));
    }
    if key.is_empty() {
        return Ok(Vec::new());
    }
    let mut injections = Vec::new();
    for (path, flags) in &concerned {
        if let Some(arg) = flags.iter().find(|arg| arg.get_long() == Some(key)) {
            let is_list = matches!(arg.get_action(), ArgAction::Append);
            let values = match value {
                Value::Array(_) if !is_list => Err("allowed is one value and no list".to_owned()),
                value => texts_of(value),
            };
            let values = values
                .and_then(|values| check(arg, &values).map(|()| values))
                .map_err(|error| format!("{} = {value}: {error}", place_name(table, key)))?;
            injections.push(Injection {
                path: path.clone(),
                flag: key.clone(),
                id: arg.get_id().to_string(),
                values,
                is_switch: matches!(arg.get_action(), ArgAction::SetTrue),
            });
        }
    }
    if injections.is_empty() {
        let own = concerned.iter().filter(|(path, _)| path == table || table == CLIENT_TABLE);
        let flags: Vec<_> = own.flat_map(|(_, flags)| flags).collect();
        return Err(format!(
            "unknown key {}, allowed are {}",
            place_name(table, key),
            names(flags.iter().filter_map(|arg| arg.get_long()))
        ));
    }
    Ok(injections)
}

fn place_name(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("[{table}] {key}") }
}

/// A client command is one that talks to a master and ends.
fn is_client(path: &str) -> bool {
    !["", "master", "store", "demo"].contains(&path)
}

fn tables(commands: &[(String, Vec<Arg>)]) -> String {
    let paths = commands.iter().map(|(path, _)| path.as_str()).filter(|path| !path.is_empty());
    names(paths.chain([CLIENT_TABLE]))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The value as it would stand on the command line.
fn texts_of(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Boolean(switch) => Ok(vec![switch.to_string()]),
        Value::Array(items) => {
            if items.iter().any(Value::is_array) {
                return Err("allowed is a list of single values".to_owned());
            }
            let lists: Result<Vec<_>, _> = items.iter().map(texts_of).collect();
            Ok(lists?.concat())
        }
        Value::Datetime(_) | Value::Table(_) => {
            Err("allowed is a text, a number, true or false".to_owned())
        }
    }
}

/// Asks the parser of the flag itself, in a command that has nothing else.
fn check(arg: &Arg, values: &[String]) -> Result<(), String> {
    let trial = Arg::new("trial")
        .long("trial")
        .action(ArgAction::Append)
        .value_parser(arg.get_value_parser().clone());
    let arguments = values.iter().map(|value| format!("--trial={value}"));
    let trial = Command::new("trial").no_binary_name(true).arg(trial);
    match trial.try_get_matches_from(arguments) {
        Ok(_) => Ok(()),
        Err(error) => Err(reason_of(&error)),
    }
}

fn reason_of(error: &clap::Error) -> String {
    if let Some(ContextValue::Strings(allowed)) = error.get(ContextKind::ValidValue)
        && !allowed.is_empty()
    {
        return format!("allowed are {}", allowed.join(", "));
    }
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => "not a value of this flag".to_owned(),
    }
}

/// Many times the largest file that sets every flag.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The table of what all client commands share.
const CLIENT_TABLE: &str = "client";

/// The table of the master.
const MASTER_TABLE: &str = "master";

/// The command that tells what a start of the master would do, so it reads the same settings.
const INSPECT_PATH: &str = "handoff.inspect";

#[cfg(test)]
mod tests;
