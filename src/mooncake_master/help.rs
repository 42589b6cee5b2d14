//! What `--help` prints.

use std::fmt::Write as _;

use super::flags::{FLAGS, Fate, LIBRARY_FLAGS};
use super::map::OF_A_LIBRARY;

/// All flags with kind, default, and what becomes of each.
pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    for flag in &FLAGS {
        let default = if flag.default.is_empty() { "\"\"" } else { flag.default };
        let _ = writeln!(text, "    -{} type: {} default: {default}", flag.name, flag.kind.name());
        let _ = match flag.fate {
            Fate::Mapped => writeln!(text, "      works{}", differing(flag.name)),
            Fate::NoEffect(why) => writeln!(text, "      accepted, no effect: {why}"),
            Fate::Only(accepted, advice) => {
                let accepted: Vec<_> = accepted.iter().map(|it| format!("\"{it}\"")).collect();
                writeln!(
                    text,
                    "      no effect with {}; else refused: {advice}",
                    accepted.join(", ")
                )
            }
        };
    }
    let names: Vec<_> = LIBRARY_FLAGS.iter().map(|(name, _)| *name).collect();
    let _ = writeln!(text, "\n  Accepted without effect, too: {}", names.join(", "));
    let _ = writeln!(text, "  {OF_A_LIBRARY}");
    text.push_str(TAIL);
    text
}

/// How a flag that works means something else than there; empty if it does not.
fn differing(name: &str) -> &'static str {
    match name {
        "client_ttl" => {
            ": a client that is silent for this long is suspected and asked again; after twice as long \
             it is offline and its segments are dropped"
        }
        _ => "",
    }
}

/// What `--version` prints.
pub(super) fn version() -> String {
    format!(
        "mooncake_master: mooring {}, with the flags of release {FLAGS_OF}\n",
        env!("CARGO_PKG_VERSION")
    )
}

const HEAD: &str = "\
mooncake_master: the master of Mooring, started with the flags of Mooncake's master

  Usage: mooncake_master [--name=value | --name value | --switch | --noswitch]...
     or: mooring mooncake-master ...

  Settings may also stand in the file of --config_path, as flat YAML or as JSON; flags go before it.
  Without --tls_cert and --tls_key only TCP is opened on --rpc_port; with them QUIC on the same
  number, too. --check_flags tells what becomes of the flags beside it and of the file, and ends: with
  status 2 if anything is refused.

  Flags:
";

const TAIL: &str = "
  Every flag of `mooring master` that is not in this list may be given, too, with underscores or
  dashes: --handoff_dir, --tls_cert, --ready_file, --log_level ...
";

/// The release whose flags are taken.
const FLAGS_OF: &str = "0.3.13";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_means_something_else_than_there_says_so() {
        let text = text();
        let (_, rest) = text.split_once("-client_ttl type").unwrap();
        let fate = rest.lines().nth(1).unwrap();
        assert!(
            fate.contains("suspected and asked again; after twice as long it is offline"),
            "{fate}"
        );
    }

    #[test]
    fn every_flag_is_told_with_what_becomes_of_it() {
        let text = text();
        for flag in &FLAGS {
            let (_, rest) = text.split_once(&format!("    -{} type: ", flag.name)).unwrap();
            let fate = rest.lines().nth(1).unwrap();
            let told = ["works", "accepted, no effect: ", "no effect with "];
            assert!(told.iter().any(|start| fate.trim_start().starts_with(start)), "{fate}");
        }
    }
}
