//! Every flag of that program and what becomes of it, in Markdown.

use std::fmt::Write as _;

use super::flags::{FLAGS, Fate, LIBRARY_FLAGS, REFUSED_LIBRARY_FLAGS};
use super::map::OF_A_LIBRARY;

/// A table in the order of the names.
pub(super) fn text() -> String {
    let mut text = "| flag | default | what becomes of it |\n| --- | --- | --- |\n".to_owned();
    for flag in &FLAGS {
        let default =
            if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
        let fate = match flag.fate {
            Fate::Mapped => "works".to_owned(),
            Fate::NoEffect(why) => format!("no effect: {why}"),
            Fate::Only(accepted, advice) => format!("{}: {advice}", refused(accepted)),
        };
        let _ = writeln!(text, "| `--{}` | {default} | {fate} |", flag.name);
    }
    text.push_str("\nFlags of the libraries of that program, of glog for the most part:\n\n");
    text.push_str("| flag | what becomes of it |\n| --- | --- |\n");
    for (name, _) in LIBRARY_FLAGS {
        let _ = writeln!(text, "| `--{name}` | no effect: {OF_A_LIBRARY} |");
    }
    for name in REFUSED_LIBRARY_FLAGS {
        let advice = "give the flags themselves, or a file by --config_path";
        let _ = writeln!(text, "| `--{name}` | **refused**: {advice} |");
    }
    text
}

fn refused(accepted: &[&str]) -> String {
    let shown =
        |value: &&str| if value.is_empty() { "nothing".to_owned() } else { format!("`{value}`") };
    let accepted: Vec<String> = accepted.iter().map(shown).collect();
    format!("**refused**, but for {}", accepted.join(", "))
}
