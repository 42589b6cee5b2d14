//! The documents of flags.

use super::generated;
use crate::harness::run;

fn printed(subject: &str) -> String {
    let output = run(&["reference", subject]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_document_names_every_flag() {
    generated::check("flags.md", &printed("flags"));
}

#[test]
fn the_document_names_every_flag_of_the_master_of_mooncake() {
    let table = printed("mooncake");
    // The flags of that program, those of its libraries, and the heads of both tables.
    assert_eq!(table.lines().count(), 97 + (26 + 3) + 2 + 5);
    generated::check("migrating.md", &table);
}
