//! What stands in `ops/` against the real binary: a document, a dashboard or a manifest that names what
//! is not there is worse than none.

mod documents;
mod expression;
mod generated;
mod manifests;
mod metrics;
mod reference;
mod watching;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// The path of a file below `ops/`.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ops").join(name)
}

/// The text of a file below `ops/`.
fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("ops/{name}: {error}"))
}

/// The documents of a YAML file below `ops/`.
fn yaml(name: &str) -> Vec<Value> {
    yaml_of(name, &text(name))
}

/// The documents of a YAML text; `name` is for the message about a fault in it.
fn yaml_of(name: &str, text: &str) -> Vec<Value> {
    use serde::Deserialize;
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    let read =
        |document| Value::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}"));
    documents.map(read).collect()
}
