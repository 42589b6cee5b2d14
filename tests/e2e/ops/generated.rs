//! Parts of documents that are made from the binary.

use std::fs;

use super::{path, text};

/// Compares the part of a document below `ops/` that is generated with what it should be. With
/// `MOORING_UPDATE_DOCS=1` it is written instead.
pub(super) fn check(document: &str, expected: &str) {
    let whole = text(document);
    let (head, rest) = whole.split_once(BEGIN).unwrap_or_else(|| panic!("{document}: no {BEGIN}"));
    let (found, tail) = rest.split_once(END).unwrap_or_else(|| panic!("{document}: no {END}"));
    let expected = format!("\n\n{}\n\n", expected.trim_end());
    if found == expected {
        return;
    }
    if std::env::var_os("MOORING_UPDATE_DOCS").is_some() {
        let whole = format!("{head}{BEGIN}{expected}{END}{tail}");
        fs::write(path(document), whole).unwrap();
        return;
    }
    let differs = |(old, new): &(&str, &str)| old != new;
    let first = found.lines().zip(expected.lines()).find(differs);
    panic!(
        "ops/{document} is not what the binary says any more; run this test with \
         MOORING_UPDATE_DOCS=1. The first difference: {first:?}"
    );
}

const BEGIN: &str = "<!-- generated from here -->";
const END: &str = "<!-- to here -->";
