//! What stands behind the path of an admin page.

use crate::admin::query as pages;
use crate::engine::{Decoder, run, within};

/// A value is copied once, and once more if it is to be text: three bytes for one that is none.
const COST: usize = 8;

fn feed(input: &[u8]) -> String {
    let Ok(query) = std::str::from_utf8(input) else { return "no text".to_owned() };
    let mut found = String::new();
    for name in ["keys", "segment", ""] {
        let decoded = within(input, COST, || pages::decoded(Some(query), name));
        let text = within(input, COST, || pages::text(Some(query), name));
        let raw = pages::raw(Some(query), name);
        assert_eq!(decoded.is_some(), raw.is_some());
        assert_eq!(text.is_some(), raw.is_some());
        if let (Some(decoded), Some(raw)) = (decoded, raw) {
            assert!(decoded.len() <= raw.len() && raw.len() <= query.len());
            found += if decoded == raw.as_bytes() { "plain " } else { "encoded " };
        }
    }
    found
}

#[test]
fn whatever_stands_behind_a_path_has_values_or_none() {
    let seeds = ["keys=a,b%2Cc&segment=node-1%3A1", "segment=a+b&keys", "=%&%4", "keys=%FF%fe"];
    run(&Decoder {
        name: "query",
        seeds: seeds.map(|seed| seed.as_bytes().to_vec()).to_vec(),
        front_bytes: 0,
        feed,
    });
}
