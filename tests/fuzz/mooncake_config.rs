//! The file that `--config_path` of the existing master names.

use super::file::{Form, parse};
use super::flags;
use super::given::Owner;
use crate::engine::{Decoder, run, within};

/// Each pair is copied from text to value; the parser of JSON keeps a tree of its own meanwhile.
const COST: usize = 128;

fn feed(input: &[u8], form: Form) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
    let master = vec![("handoff_dir".to_owned(), false), ("dev".to_owned(), true)];
    match within(input, COST, || parse(text, form, &master)) {
        Ok(found) => {
            for given in &found.settings {
                match given.owner {
                    Owner::Library => panic!("no file has flags of a library"),
                    Owner::Table => assert!(flags::find(&given.name).is_some()),
                    Owner::Master => assert!(master.iter().any(|(name, _)| *name == given.name)),
                }
            }
            format!("accepted {} {}", found.settings.is_empty(), found.unknown.is_empty())
        }
        Err(error) => {
            assert!(!error.is_empty());
            error.split(|it: char| !it.is_ascii_alphabetic()).take(3).collect()
        }
    }
}

#[test]
fn whatever_stands_in_a_file_of_json_is_taken_or_refused() {
    let seeds = [
        r#"{"rpc_port": 7, "enable_ha": false, "eviction_ratio": 0.1, "cluster_id": ""}"#,
        r#"{"client_live_ttl_sec": 60, "handoff_dir": "/a", "dev": true, "none": null}"#,
        r#"{"rpc_port": [1], "a": {"b": 1e400}}"#,
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let feed = |input: &[u8]| feed(input, Form::Json);
    run(&Decoder { name: "mooncake_json", seeds, front_bytes: 1, feed });
}

#[test]
fn whatever_stands_in_a_file_of_yaml_is_taken_or_refused() {
    let seeds = [
        "---\n# a comment\nrpc_port: 7 # behind\nenable_ha: no\ndefault_kv_lease_ttl: \"5s\"\n",
        "client_live_ttl_sec: 60\ncluster_id: ''\nhandoff_dir: /a\ndev: yes\nnone: ~\n",
        "a: [1]\n- b\n  c: 'd\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let feed = |input: &[u8]| feed(input, Form::Yaml);
    run(&Decoder { name: "mooncake_yaml", seeds, front_bytes: 0, feed });
}
