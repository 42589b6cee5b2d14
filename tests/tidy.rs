//! The house rules that a program can check.

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

/// About 500 lines is where one looks again; a little more is no reason to cut a thing in two.
const LINES_MAX: usize = 560;
