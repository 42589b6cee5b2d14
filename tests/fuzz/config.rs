//! The file that `--config` names.

use std::sync::OnceLock;

use clap::{Arg, ArgAction, Command};

use super::file::ConfigFile;
use crate::engine::{Decoder, run};

/// A command line with each sort of flag.
fn command() -> &'static Command {
    static COMMAND: OnceLock<Command> = OnceLock::new();
    COMMAND.get_or_init(|| {
        let number = Arg::new("port").long("port").value_parser(clap::value_parser!(u16));
        let switch = Arg::new("dev").long("dev").action(ArgAction::SetTrue);
        let list = Arg::new("name").long("name").action(ArgAction::Append);
        let text = Arg::new("layout").long("layout").value_parser(["tasks", "threads"]);
        Command::new("test")
            .arg(Arg::new("level").long("level").global(true))
            .subcommand(Command::new("master").args([number, switch, list, text]))
            .subcommand(Command::new("put").arg(Arg::new("size").long("size")))
    })
}

/// What is accepted stands on the command line as the flags that the file names.
fn feed(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
    match ConfigFile::parse(command(), text) {
        Ok(injections) => {
            for injection in &injections {
                let known = ["level", "port", "dev", "name", "layout", "size"];
                assert!(known.contains(&injection.flag.as_str()), "{}", injection.flag);
            }
            format!("accepted {}", injections.len().min(4))
        }
        // The text repeats what is wrong; its kind is in the first words.
        Err(error) => {
            assert!(!error.is_empty());
            error.split(|it: char| !it.is_ascii_alphabetic()).take(3).collect()
        }
    }
}

#[test]
fn whatever_stands_in_a_file_of_flags_is_taken_or_refused() {
    let seeds = [
        "level = 'x'\n[master]\nport = 7\ndev = true\nname = ['a', 'b']\nlayout = 'tasks'\n",
        "[client]\nsize = 1.5\n[put]\nsize = \"2\"\n",
        "[master]\nport = [1]\n[nothing.at.all]\n",
        "a.b = {c = 1979-05-27}\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    run(&Decoder { name: "config", seeds, front_bytes: 0, feed });
}
