//! The file that `--config_path` names: keys are flag names, in JSON or in flat YAML.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::flags::{self, Kind};
use super::given::{Given, MasterFlags, Owner};
use super::values;
use crate::command::CommandError;

/// What a file sets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FileSettings {
    /// Flags of the table, and of `mooring master` alone.
    pub(super) settings: Vec<Given>,
    /// Keys that are no flags. That program passes over them.
    pub(super) unknown: Vec<String>,
    /// Values that their flags do not take, each with the name of its flag.
    pub(super) refused: Vec<String>,
}

/// Reads a file.
///
/// # Errors
/// Arguments, naming the file: for one that cannot be read or has another form.
pub(super) fn read(path: &Path, master: &MasterFlags) -> Result<FileSettings, CommandError> {
    let named = |text: String| format!("--config_path={}: {text}", path.display());
    let wrong = |text: String| CommandError::Arguments(named(text));
    let form = match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Form::Json,
        Some("yaml" | "yml") => Form::Yaml,
        _ => return Err(wrong("allowed is a file that ends in .json, .yaml or .yml".to_owned())),
    };
    let mut found = parse(&text_of(path).map_err(wrong)?, form, master).map_err(wrong)?;
    found.refused = found.refused.into_iter().map(named).collect();
    Ok(found)
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// One object.
    Json,
    /// One pair a line.
    Yaml,
}

/// Reads what stands in a file.
///
/// # Errors
/// As [`read`], without the name of the file.
pub(super) fn parse(text: &str, form: Form, master: &MasterFlags) -> Result<FileSettings, String> {
    let pairs = match form {
        Form::Json => json_pairs(text),
        Form::Yaml => yaml_pairs(text),
    };
    Ok(settings_of(pairs?, master))
}

type Pairs = Vec<(String, String)>;

fn settings_of(pairs: Pairs, master: &MasterFlags) -> FileSettings {
    let mut found = FileSettings::default();
    for (key, value) in pairs {
        let name = if key == CLIENT_TTL_KEY { "client_ttl" } else { key.as_str() };
        let (value, owner) = match flags::find(name) {
            // An empty text of a number or switch is one that was left open.
            Some(flag) if value.is_empty() && flag.kind != Kind::Text => continue,
            Some(flag) => (values::checked(flag, &value), Owner::Table),
            None => match master.iter().find(|(known, _)| *known == key) {
                // A flag of the master's own, which says how the index outlives a restart, for one.
                Some((_, true)) => (values::checked_switch(&key, &value), Owner::Master),
                Some((_, false)) => (Ok(value), Owner::Master),
                None => {
                    found.unknown.push(key);
                    continue;
                }
            },
        };
        match value {
            Ok(value) => found.settings.push(Given { name: name.to_owned(), value, owner }),
            Err(error) => found.refused.push(error.to_string()),
        }
    }
    found
}

fn text_of(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot read: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes are no configuration"));
    }
    String::from_utf8(bytes).map_err(|error| format!("cannot read: {error}"))
}

fn json_pairs(text: &str) -> Result<Pairs, String> {
    let Value::Object(members) = serde_json::from_str(text).map_err(|error| error.to_string())?
    else {
        return Err("allowed is one object with flag names as keys".to_owned());
    };
    let mut pairs = Vec::with_capacity(members.len());
    for (key, value) in members {
        let value = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(switch) => switch.to_string(),
            Value::Null => String::new(),
            Value::Array(_) | Value::Object(_) => {
                return Err(format!("{key}: allowed is a text, a number, true or false"));
            }
        };
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// The part of YAML that such files need: one `key: value` a line, comments, and quotes. Anything
/// else is refused: half understood would be worse.
fn yaml_pairs(text: &str) -> Result<Pairs, String> {
    let mut pairs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        let content = line.trim_end();
        if content.trim_start().is_empty()
            || content.trim_start().starts_with('#')
            || content == "---"
        {
            continue;
        }
        if content.starts_with([' ', '\t', '-']) {
            return Err(wrong("allowed is `key: value`, without indentation or lists"));
        }
        let Some((key, rest)) = content.split_once(':') else {
            return Err(wrong("allowed is `key: value`"));
        };
        if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
            return Err(wrong("a blank must follow the colon"));
        }
        let key = key.trim_end().trim_matches(['"', '\'']);
        let value = yaml_scalar(rest.trim()).map_err(wrong)?;
        pairs.push((key.to_owned(), value));
    }
    Ok(pairs)
}

fn yaml_scalar(text: &str) -> Result<String, &'static str> {
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let Some((inside, after)) = rest.split_once(quote) else {
                return Err("a quote is not closed");
            };
            let after = after.trim_start();
            if !(after.is_empty() || after.starts_with('#')) || inside.contains('\\') {
                return Err("allowed is one text in quotes, without escapes");
            }
            return Ok(inside.to_owned());
        }
    }
    if text.starts_with('#') {
        return Ok(String::new());
    }
    let plain = text.split_once(" #").map_or(text, |(before, _)| before).trim_end();
    if plain.starts_with(['{', '[', '&', '*', '!', '|', '>', '%', '@', '`']) {
        return Err("allowed is a text, a number, true or false");
    }
    Ok(if plain == "~" || plain == "null" { String::new() } else { plain.to_owned() })
}

/// The one key that is not named as its flag.
const CLIENT_TTL_KEY: &str = "client_live_ttl_sec";

/// Many times the largest file that sets every flag.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(name: &str, text: &str) -> Result<FileSettings, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let found = read(&path, &Vec::new()).map_err(|error| error.to_string())?;
        if found.refused.is_empty() { Ok(found) } else { Err(found.refused.join("; ")) }
    }

    fn pairs(found: &FileSettings) -> Vec<(&str, &str)> {
        found.settings.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect()
    }

    #[test]
    fn json_and_yaml_say_the_same() {
        let json = r#"{"rpc_port": 7, "enable_ha": false, "default_kv_lease_ttl": "5s",
                       "eviction_ratio": 0.1, "client_live_ttl_sec": 60, "cluster_id": ""}"#;
        let yaml = "---\n# a comment\nrpc_port: 7 # behind\nenable_ha: no\n\n\
                    default_kv_lease_ttl: \"5s\"\neviction_ratio:  0.1\nclient_live_ttl_sec: 60\n\
                    cluster_id: ''\n";
        let expected = [
            ("client_ttl", "60"),
            ("cluster_id", ""),
            ("default_kv_lease_ttl", "5s"),
            ("enable_ha", "false"),
            ("eviction_ratio", "0.1"),
            ("rpc_port", "7"),
        ];
        for (name, text) in [("a.json", json), ("a.yaml", yaml), ("a.yml", yaml)] {
            let found = read_as(name, text).unwrap();
            let mut found = pairs(&found);
            found.sort_unstable();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn keys_that_are_no_flags_are_told() {
        let found = read_as("a.yaml", "rpc_protocol: tcp\nrpc_port:\n").unwrap();
        assert_eq!((found.unknown, found.settings), (vec!["rpc_protocol".to_owned()], Vec::new()));
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_name_and_place() {
        for (name, text, part) in [
            ("a.toml", "", ".yaml"),
            ("a.json", "[1]", "object"),
            ("a.json", "{\"rpc_port\": [1]}", "rpc_port"),
            ("a.json", "{\"rpc_port\": \"x\"}", "rpc_port"),
            ("a.yaml", "a: 1\n  b: 2", "line 2"),
            ("a.yaml", "- a", "line 1"),
            ("a.yaml", "rpc_port", "line 1"),
            ("a.yaml", "rpc_port:7", "line 1"),
            ("a.yaml", "rpc_port: [7]", "line 1"),
            ("a.yaml", "cluster_id: \"a", "line 1"),
            ("a.yaml", "enable_ha: maybe", "enable_ha"),
        ] {
            let error = read_as(name, text).unwrap_err();
            assert!(error.contains(part) && error.contains(name), "{text}: {error}");
        }
        let error = read_as("a.yaml", "rpc_port: x\nclient_ttl: y\n").unwrap_err();
        assert!(error.contains("rpc_port") && error.contains("client_ttl"), "{error}");
        let error = read(Path::new("/nowhere/a.yaml"), &Vec::new()).unwrap_err().to_string();
        assert!(error.contains("/nowhere/a.yaml"), "{error}");
    }
}
