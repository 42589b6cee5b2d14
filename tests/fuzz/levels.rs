//! What `PUT /log_level` and `--log-level` are given.

use super::levels::{lenient, strict};
use crate::engine::{Decoder, run, within};

/// A directive of two letters is kept as texts, sets and tables, some of them before the first entry.
const COST: usize = 512;

fn feed(input: &[u8]) -> String {
    let Ok(directives) = std::str::from_utf8(input) else { return "no text".to_owned() };
    match within(input, COST, || strict(directives)) {
        Ok(filter) => {
            assert!(lenient(directives).is_ok());
            format!("accepted {:?}", filter.max_level_hint())
        }
        Err(text) => {
            assert!(!text.is_empty());
            text.split(|it: char| !it.is_ascii_alphabetic()).rev().take(3).collect()
        }
    }
}

#[test]
fn whatever_directives_are_told_are_a_filter_or_refused() {
    let seeds = [
        "info",
        "warn,mooring=debug,quinn::connection=off",
        "off,[request{key=\"a\",bytes=5}]=trace,mooring[put{ok=true}]=2",
        "[put{key=.*a.........}]=info",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    // What is made once for all is not for the first input.
    assert!(strict("[put{bytes=5}]=info").is_ok());
    run(&Decoder { name: "levels", seeds, front_bytes: 0, feed });
}

#[test]
fn a_value_that_would_be_a_large_table_as_a_pattern_costs_no_more_than_its_letters() {
    let input = b"[put{key=.*a..............}]=info";
    let filter = within(input, COST, || strict(std::str::from_utf8(input).unwrap()));
    assert!(filter.is_ok());
}
