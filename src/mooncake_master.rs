//! The binary in the place of Mooncake's master: called by that name, it takes that program's flags
//! and starts a master of its own with them.
//!
//! Each flag works, is accepted and named in the log as having no effect, or is refused before
//! anything starts: a setting is never lost in silence.

mod check;
mod file;
mod flags;
mod given;
mod help;
mod map;
mod reference;
mod values;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use given::{Line, MasterFlags};

use crate::command::CommandError;
use crate::output;

/// The arguments behind the name, if the program is called by it: as the file `mooncake_master`, or
/// as `mooring mooncake-master`.
pub(crate) fn called_by(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new(FILE_NAME)) {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    (first == SUBCOMMAND).then_some(rest)
}

/// What is to be done with arguments.
pub(crate) enum Asked {
    /// Nothing: help or version was printed.
    Told,
    /// To run this command line of `mooring`.
    Master {
        /// With the name of the program.
        arguments: Vec<OsString>,
        /// Flags that were given and do nothing here.
        ineffective: Vec<String>,
    },
    /// To tell what would become of the flags.
    Check {
        /// That command line of `mooring`.
        arguments: Vec<OsString>,
        /// What to tell.
        report: String,
        /// Whether any of them is refused.
        is_refused: bool,
    },
}

/// Translates arguments into those of `mooring master`, of which `command` is the whole command
/// line.
///
/// # Errors
/// Arguments, naming every flag that is refused.
pub(crate) fn translate(
    command: &clap::Command,
    arguments: &[OsString],
) -> Result<Asked, CommandError> {
    let arguments: Vec<String> =
        arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let told = |text: String| {
        output::print(text)?;
        Ok(Asked::Told)
    };
    let master = master_flags(command);
    let settings = match given::read(&arguments, &master) {
        Line::Help => return told(help::text()),
        Line::Version => return told(help::version()),
        Line::Run(settings) => settings,
    };
    let is_check = settings.is_check;
    let plan = map::plan(settings, &master);
    let start = [OsString::from("mooring"), "master".into()];
    let arguments = start.into_iter().chain(plan.flags.iter().map(OsString::from)).collect();
    if is_check {
        let (report, is_refused) = (check::report(&plan), !plan.refused.is_empty());
        return Ok(Asked::Check { arguments, report, is_refused });
    }
    match plan.refused.as_slice() {
        [] => {
            let ineffective = plan.ineffective.into_iter().map(|it| it.name).collect();
            Ok(Asked::Master { arguments, ineffective })
        }
        [one] => Err(CommandError::Arguments(one.clone())),
        many => {
            let all = many.join("\n  ");
            Err(CommandError::Arguments(format!("{} settings are refused:\n  {all}", many.len())))
        }
    }
}

/// Every flag of that program and what becomes of it, in Markdown.
pub(crate) fn reference() -> String {
    reference::text()
}

/// The flags of `mooring master` and of every subcommand.
fn master_flags(command: &clap::Command) -> MasterFlags {
    let master = command.find_subcommand("master");
    let all = command.get_arguments().chain(master.into_iter().flat_map(|it| it.get_arguments()));
    all.filter_map(|arg| {
        let is_switch = !arg.get_action().takes_values();
        Some((arg.get_long()?.replace('-', "_"), is_switch))
    })
    .collect()
}

/// The name of that program's file.
const FILE_NAME: &str = "mooncake_master";

/// The same as a subcommand.
const SUBCOMMAND: &str = "mooncake-master";

#[cfg(test)]
mod tests {
    use super::*;
    use flags::FLAGS;

    /// Name, kind and default of each flag, as release 0.3.13.post1 prints them.
    const PRINTED: &str = include_str!("../tests/fixtures/mooncake-0.3.13/master-flags.txt");

    fn called(arguments: &[&str]) -> Option<usize> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        called_by(&arguments).map(<[OsString]>::len)
    }

    #[test]
    fn the_name_of_the_file_or_the_subcommand_decides() {
        assert_eq!(called(&["/usr/local/bin/mooncake_master", "-a", "-b"]), Some(2));
        assert_eq!(called(&["mooring", "mooncake-master", "-a"]), Some(1));
        assert_eq!(called(&["mooring", "master"]), None);
        assert_eq!(called(&["mooring"]), None);
    }

    #[test]
    fn the_table_is_the_list_of_that_program() {
        let printed: Vec<_> = PRINTED.lines().collect();
        assert_eq!(printed.len(), FLAGS.len());
        for line in printed {
            let mut parts = line.splitn(3, ' ');
            let (name, kind) = (parts.next().unwrap(), parts.next().unwrap());
            let default = parts.next().unwrap().trim_matches('"');
            let flag = flags::find(name).unwrap_or_else(|| panic!("{name} is not in the table"));
            assert_eq!(flag.kind.name(), kind, "{name}");
            match flag.kind {
                flags::Kind::Real => {
                    assert_eq!(flag.default.parse::<f64>(), default.parse::<f64>(), "{name}");
                }
                _ => assert_eq!(flag.default, default, "{name}"),
            }
        }
        assert!(FLAGS.is_sorted_by_key(|flag| flag.name));
    }

    #[test]
    fn every_default_is_accepted() {
        for flag in &FLAGS {
            assert_eq!(values::checked(flag, flag.default).unwrap(), flag.default, "{}", flag.name);
            if let flags::Fate::Only(accepted, advice) = flag.fate {
                assert!(accepted.contains(&flag.default) && !advice.is_empty(), "{}", flag.name);
            }
        }
    }
}
