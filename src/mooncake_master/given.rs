//! What stands on the command line, in the syntax of that program: `--name=value`, `--name value`,
//! with one dash or two, and for switches `--name` and `--noname`.

use crate::command::CommandError;

use super::flags::{self, Flag, Kind, LIBRARY_FLAGS, REFUSED_LIBRARY_FLAGS};
use super::values;

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    /// With underscores.
    pub(super) name: String,
    /// As text that its kind accepts.
    pub(super) value: String,
    /// Whose flag it is.
    pub(super) owner: Owner,
}

/// Whose flag a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The other program's.
    Table,
    /// That of a library of the other program.
    Library,
    /// Of `mooring master` alone.
    Master,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    /// To be told how it is used.
    Help,
    /// To be told which release it is.
    Version,
    /// To run with these settings, or to tell what would become of them.
    Run(Settings),
}

/// What a command line sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    /// In their order.
    pub(super) given: Vec<Given>,
    /// What cannot be understood, each with the name of its flag.
    pub(super) refused: Vec<String>,
    /// Only to be told about.
    pub(super) is_check: bool,
}

/// Flags of `mooring master` that may be given here too: the name with underscores, and whether it
/// is a switch.
pub(super) type MasterFlags = Vec<(String, bool)>;

/// Reads a command line, without the name of the program. Refused is a flag that nobody knows, one
/// without a value, and one whose value is not of its kind.
pub(super) fn read(arguments: &[String], master: &MasterFlags) -> Line {
    let mut settings = Settings::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        // What is no flag is of no use to that program either, but is not refused by it.
        let Some(body) = body_of(argument) else { continue };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let name = name.replace('-', "_");
        if HELP.contains(&name.as_str()) {
            return Line::Help;
        }
        if name == "version" {
            return Line::Version;
        }
        if let Some(is_check) = check(&name, value.as_deref()) {
            match is_check {
                Ok(is_check) => settings.is_check = is_check,
                Err(error) => settings.refused.push(error.to_string()),
            }
            continue;
        }
        match setting(name, value, &mut rest, master) {
            Ok(given) => settings.given.push(given),
            Err(error) => settings.refused.push(error.to_string()),
        }
    }
    Line::Run(settings)
}

/// Whether the switch of this binary's own is on; `None` if this is another flag.
fn check(name: &str, value: Option<&str>) -> Option<Result<bool, CommandError>> {
    if name.strip_prefix("no") == Some(CHECK) {
        return Some(Ok(false));
    }
    let value = value.unwrap_or("true");
    (name == CHECK).then(|| values::checked_switch(name, value).map(|text| text == "true"))
}

fn setting<'a>(
    name: String,
    value: Option<String>,
    rest: &mut impl Iterator<Item = &'a String>,
    master: &MasterFlags,
) -> Result<Given, CommandError> {
    if REFUSED_LIBRARY_FLAGS.contains(&name.as_str()) {
        return Err(CommandError::Arguments(format!(
            "--{name} is not supported: give the flags themselves, or a file by --config_path"
        )));
    }
    if let Some((owner, flag, is_switch)) = known(&name, master) {
        let value = match value {
            Some(value) => value,
            None if is_switch => "true".to_owned(),
            None => rest.next().cloned().ok_or_else(|| {
                CommandError::Arguments(format!("flag '--{name}' is missing its argument"))
            })?,
        };
        let value = match flag {
            Some(flag) => values::checked(flag, &value)?,
            None if is_switch => values::checked_switch(&name, &value)?,
            None => value,
        };
        return Ok(Given { name, value, owner });
    }
    // As there, whatever stands behind the name of a switch that is switched off does not count.
    if let Some(positive) = name.strip_prefix("no")
        && let Some((owner, _, true)) = known(positive, master)
    {
        return Ok(Given { name: positive.to_owned(), value: "false".to_owned(), owner });
    }
    Err(CommandError::Arguments(format!("unknown command line flag '{name}'")))
}

fn known(name: &str, master: &MasterFlags) -> Option<(Owner, Option<&'static Flag>, bool)> {
    if let Some(flag) = flags::find(name) {
        return Some((Owner::Table, Some(flag), flag.kind == Kind::Switch));
    }
    if let Some((_, is_switch)) = LIBRARY_FLAGS.iter().find(|(known, _)| *known == name) {
        return Some((Owner::Library, None, *is_switch));
    }
    let (_, is_switch) = master.iter().find(|(known, _)| known == name)?;
    Some((Owner::Master, None, *is_switch))
}

/// What follows the dashes.
fn body_of(argument: &str) -> Option<&str> {
    let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
    (!body.is_empty()).then_some(body)
}

/// All the ways to ask for help; which part of it is asked for does not matter here.
const HELP: [&str; 8] =
    ["h", "help", "helpfull", "helpmatch", "helpon", "helppackage", "helpshort", "helpxml"];

/// A flag of this binary's own, which that program does not have.
pub(super) const CHECK: &str = "check_flags";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let master = vec![("dev".to_owned(), true), ("handoff_dir".to_owned(), false)];
        read(&arguments, &master)
    }

    fn run(text: &str) -> Settings {
        match line(text) {
            Line::Run(settings) => settings,
            other => panic!("{other:?}"),
        }
    }

    fn settings(text: &str) -> Vec<(String, String)> {
        let settings = run(text);
        assert_eq!(settings.refused, Vec::<String>::new());
        settings.given.into_iter().map(|it| (it.name, it.value)).collect()
    }

    #[test]
    fn a_value_follows_an_equals_sign_or_stands_in_the_next_argument() {
        let expected = vec![("rpc_port".to_owned(), "7".to_owned())];
        for text in ["--rpc_port=7", "-rpc_port=7", "--rpc_port 7", "-rpc_port 7", "--rpc-port=7"] {
            assert_eq!(settings(text), expected, "{text}");
        }
    }

    #[test]
    fn a_switch_is_on_without_a_value_and_takes_none_from_the_next_argument() {
        for (text, value) in [
            ("--enable_ha", "true"),
            ("--enable_ha=true", "true"),
            ("--enable_ha=1", "true"),
            ("--enable_ha=F", "false"),
            ("--enable_ha=no", "false"),
            ("--noenable_ha", "false"),
            ("--noenable_ha=true", "false"),
            ("--enable_ha 0", "true"),
        ] {
            assert_eq!(settings(text), [("enable_ha".to_owned(), value.to_owned())], "{text}");
        }
    }

    #[test]
    fn what_is_no_flag_is_passed_over_and_two_dashes_end_the_flags() {
        assert_eq!(settings("word - --rpc_port=1 -- --rpc_port=2").len(), 1);
    }

    #[test]
    fn flags_of_the_libraries_and_of_the_own_master_are_known() {
        let given = run("-logtostderr --v=1 --dev --handoff_dir d --nolog_prefix").given;
        let owners: Vec<_> = given.into_iter().map(|it| it.owner).collect();
        let (library, master) = (Owner::Library, Owner::Master);
        assert_eq!(owners, [library, library, master, master, library]);
    }

    #[test]
    fn help_and_version_go_before_everything_else() {
        assert_eq!(line("--rpc_port=1 --nope -help"), Line::Help);
        assert_eq!(line("--version"), Line::Version);
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        for (text, part) in [
            ("--nope=1", "nope"),
            ("--nonope", "nonope"),
            ("--norpc_port", "norpc_port"),
            ("--rpc_port", "rpc_port"),
            ("--rpc_port=x", "rpc_port"),
            ("--enable_ha=maybe", "enable_ha"),
            ("--flagfile=x", "flagfile"),
        ] {
            let refused = run(text).refused;
            assert!(refused.len() == 1 && refused[0].contains(part), "{text}: {refused:?}");
        }
    }

    #[test]
    fn the_switch_that_asks_for_a_check_is_a_switch_like_any_other() {
        for (text, is_check) in [
            ("--check_flags", true),
            ("--check-flags=yes", true),
            ("--check_flags=false", false),
            ("--nocheck_flags", false),
            ("--check_flags --check_flags=0", false),
        ] {
            let settings = run(text);
            assert_eq!(settings, Settings { is_check, ..Settings::default() }, "{text}");
        }
        let refused = run("--check_flags=maybe").refused;
        assert!(refused.len() == 1 && refused[0].contains("'check_flags'"), "{refused:?}");
    }

    #[test]
    fn what_stands_behind_something_that_is_refused_is_read_all_the_same() {
        let settings = run("--nope=1 --rpc_port=x --client_ttl=7 --check_flags --also");
        assert!(settings.is_check);
        assert_eq!((settings.refused.len(), settings.given.len()), (3, 1));
    }
}
