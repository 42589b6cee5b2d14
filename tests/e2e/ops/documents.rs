//! Documents of operators: links lead somewhere, and flags that they name are flags.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::{path, text};
use crate::harness::run;

/// The README at the top and every document below `ops/`.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![path("../README.md")];
    let mut folders = vec![path("")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The anchors of a document, as they are made from its headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|it| it.is_alphanumeric() || "-_".contains(*it)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let links = Regex::new(r"\]\(([^)#]*)(?:#([^)]*))?\)").unwrap();
    for document in documents() {
        let text = read(&document);
        for link in links.captures_iter(&text) {
            let place = format!("{}: {}", document.display(), &link[0]);
            let target = match &link[1] {
                "" => document.clone(),
                relative => document.parent().unwrap().join(relative),
            };
            assert!(target.exists(), "{place}");
            if let Some(anchor) = link.get(2) {
                let known = anchors(&read(&target));
                assert!(known.iter().any(|it| it == anchor.as_str()), "{place}: {known:?}");
            }
        }
    }
}

#[test]
fn every_flag_that_is_named_is_a_flag() {
    let flags = String::from_utf8(run(&["reference", "flags"]).stdout).unwrap();
    let known = flags + &text("migrating.md");
    let named = Regex::new(r"`(--[a-z][a-z0-9_-]*[a-z0-9])").unwrap();
    let mut count = 0;
    for document in documents() {
        for flag in named.captures_iter(&read(&document)) {
            let flag = &flag[1];
            if OF_OTHERS.contains(&flag) {
                continue;
            }
            // Called as mooncake_master the flags of the master have underscores.
            let spellings = [flag.to_owned(), flag.replace('_', "-")];
            let is_known = |it: &String| {
                known.contains(&format!("`{it}`")) || known.contains(&format!("`{it} "))
            };
            assert!(spellings.iter().any(is_known), "{}: {flag}", document.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} flags were found");
}

/// Of Helm, and what every program has.
const OF_OTHERS: [&str; 4] = ["--set", "--help", "--version", "--config_path"];
