//! The house rules that a program can check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(below: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<PathBuf> {
    ["src", "actors", "proto", "tests"].into_iter().flat_map(|part| files(part, ".rs")).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn no_file_is_so_long_that_one_gets_lost_in_it() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|path| (text(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{} has {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "more than {LINES_MAX} lines: {long:#?}");
}

#[test]
fn nothing_is_left_for_later_in_the_code() {
    // Put together here, so that this file does not find itself.
    let words = ["TO", "FIX", "XX"].map(|start| {
        format!(
            "{start}{}",
            match start {
                "TO" => "DO",
                "FIX" => "ME",
                _ => "X",
            }
        )
    });
    let left: Vec<String> = sources()
        .into_iter()
        .filter(|path| words.iter().any(|word| text(path).contains(word.as_str())))
        .map(|path| path.display().to_string())
        .collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn every_part_opens_with_a_page_that_says_what_it_is() {
    for part in ["actors", "proto", "tests", "ops"] {
        let readme = text(&root().join(part).join("README.md"));
        assert!(readme.starts_with("# "), "{part}/README.md has no title");
        assert!(readme.lines().count() <= 80, "{part}/README.md is more than a page");
    }
}

#[test]
fn the_proof_of_the_handoff_names_files_that_exist() {
    let proof = text(&root().join("actors/HANDOFF.md"));
    let all: Vec<String> =
        sources().into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let named = proof.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs"));
    let mut names = 0;
    for name in named {
        names += 1;
        let ending = format!("/{name}");
        assert!(all.iter().any(|path| path.ends_with(&ending)), "{name} is nowhere");
    }
    assert!(names > 20, "the proof ties its steps to code");
}

/// Whether a word is the number of a field report.
fn is_report(word: &str) -> bool {
    let digits = word.strip_prefix('R').unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|it| it.is_ascii_digit())
}

/// The numbers of field reports that stand in comments.
fn reports_in(lines: &[&str]) -> BTreeSet<String> {
    let comments = lines.iter().filter(|line| line.trim_start().starts_with("//"));
    let words = comments.flat_map(|line| line.split(|it: char| !it.is_alphanumeric()));
    words.filter(|word| is_report(word)).map(str::to_owned).collect()
}

#[test]
fn every_field_report_of_the_table_has_tests_that_bear_its_number() {
    let readme = text(&root().join("tests/README.md"));
    let texts: Vec<String> = sources().iter().map(|path| text(path)).collect();
    let all: Vec<Vec<&str>> = texts.iter().map(|text| text.lines().collect()).collect();
    let mut table = BTreeSet::new();
    for row in readme.lines() {
        let mut words = row.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
        let Some(report) = words.next().filter(|it| row.starts_with("| R") && is_report(it)) else {
            continue;
        };
        assert!(table.insert(report.to_owned()), "{report} has two rows");
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{report} has no test");
        for name in names {
            let start = format!("fn {name}(");
            let found: Vec<&[&str]> = all
                .iter()
                .filter_map(|lines| {
                    let place = lines.iter().position(|line| line.contains(&start))?;
                    Some(&lines[place.saturating_sub(ATTRIBUTE_LINES)..place])
                })
                .collect();
            let [before] = found[..] else { panic!("{report}: {} tests are {name}", found.len()) };
            let attributes = ["#[test]", "#[tokio::test"];
            let is_test = |line: &&str| attributes.iter().any(|it| line.trim().starts_with(it));
            assert!(before.iter().any(is_test), "{report}: {name} is no test");
            assert!(
                reports_in(before).contains(report),
                "{name} does not bear the number {report}"
            );
        }
    }
    assert_eq!(table.len(), REPORTS, "a report is missing or new");
    let named: BTreeSet<String> = all.iter().flat_map(|lines| reports_in(lines)).collect();
    let unknown: Vec<_> = named.difference(&table).collect();
    assert!(unknown.is_empty(), "{unknown:?} are in no row of the table");
}

#[test]
fn the_limits_that_operators_are_told_are_constants_of_the_code() {
    let document = text(&root().join("ops/SECURITY.md"));
    let mut limits = 0;
    for row in document.lines().filter(|line| line.starts_with('|')) {
        let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let Some(path) = words.iter().find(|word| word.ends_with(".rs")) else { continue };
        let code = text(&root().join(path));
        let is_constant = |word: &&&str| {
            word.len() > 3 && word.chars().all(|it| it.is_ascii_uppercase() || it == '_')
        };
        let before = words.iter().take_while(|word| *word != path);
        for name in before.filter(is_constant) {
            assert!(code.contains(&format!("const {name}: ")), "{path} has no {name}: {row}");
            limits += 1;
        }
    }
    assert!(limits > 40, "{limits} limits are named");
}

#[test]
fn the_toolchain_is_pinned_and_the_workspace_asks_for_no_newer_one() {
    let pinned = text(&root().join("rust-toolchain.toml"));
    let manifest = text(&root().join("Cargo.toml"));
    let wanted = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .and_then(|rest| rest.split('"').next())
        .expect("the workspace names a version");
    assert!(pinned.contains(&format!("channel = \"{wanted}")), "{wanted} is not the pinned one");
}

/// Above the name of a test stand its number and its attributes.
const ATTRIBUTE_LINES: usize = 6;

/// How many reports there are.
const REPORTS: usize = 28;

/// About 500 lines is where one looks again; a little more is no reason to cut a thing in two.
const LINES_MAX: usize = 560;
