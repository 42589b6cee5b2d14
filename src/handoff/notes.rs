//! The small records beside a snapshot, in JSON so that a person can read them. Fields that are not
//! known are skipped, missing ones have their defaults: a note never stops a start by its form.

use std::io::{ErrorKind, Read};
use std::path::Path;

use mooring_proto::Incarnation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reason::{Cause, Reason};
use crate::regular_file;

/// `serving`: a master serves with this directory, or did until it was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServingNote {
    /// Which master.
    #[serde(with = "hexadecimal")]
    pub(crate) incarnation: Incarnation,
    /// Its process.
    #[serde(default)]
    pub(crate) pid: u32,
    /// Since when, by the wall clock, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) since_wall_ms: u64,
    /// What its start did: `restored`, or the reason why it began empty.
    #[serde(default)]
    pub(crate) start: String,
    /// What the master before said when it left.
    #[serde(default)]
    pub(crate) last_shutdown: Option<ShutdownNote>,
}

/// `last_shutdown`: how a master left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShutdownNote {
    /// Which master.
    #[serde(with = "hexadecimal")]
    pub(crate) incarnation: Incarnation,
    /// Whether it left a snapshot, or why not.
    pub(crate) result: ShutdownResult,
    /// One sentence about a failure.
    #[serde(default)]
    pub(crate) detail: String,
    /// When, by the wall clock, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) ended_wall_ms: u64,
    /// Bytes of the snapshot.
    #[serde(default)]
    pub(crate) bytes: u64,
    /// Objects in it.
    #[serde(default)]
    pub(crate) objects: u64,
    /// From the signal until this was written.
    #[serde(default)]
    pub(crate) duration_ms: u64,
    /// How many shards were written side by side.
    #[serde(default)]
    pub(crate) workers: u32,
}

/// Whether a master left a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) enum ShutdownResult {
    /// It did.
    Ok,
    /// It did not.
    Failed(Reason),
}

impl ShutdownResult {
    /// The name in metrics, logs and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ShutdownResult::Ok => "ok",
            ShutdownResult::Failed(reason) => reason.name(),
        }
    }
}

impl From<ShutdownResult> for String {
    fn from(result: ShutdownResult) -> String {
        result.name().to_owned()
    }
}

impl From<String> for ShutdownResult {
    fn from(name: String) -> ShutdownResult {
        if name == "ok" {
            return ShutdownResult::Ok;
        }
        let known = Reason::ALL.into_iter().find(|reason| reason.name() == name);
        ShutdownResult::Failed(known.unwrap_or(Reason::Unknown))
    }
}

/// `refused`: a start refused to serve, and so does every one until this is cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedNote {
    /// Why.
    pub(crate) reason: Reason,
    /// One sentence.
    #[serde(default)]
    pub(crate) detail: String,
    /// When, by the wall clock, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) at_wall_ms: u64,
}

impl RefusedNote {
    /// The reason with its sentence.
    pub(crate) fn cause(&self) -> Cause {
        Cause::new(self.reason, self.detail.clone())
    }
}

/// `POISON`: a master found that another one had used the directory while it held it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoisonNote {
    /// The master that found it.
    #[serde(with = "hexadecimal")]
    pub(crate) incarnation: Incarnation,
    /// What it found.
    #[serde(default)]
    pub(crate) found: String,
}

/// A note as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note<T> {
    /// It is what it should be.
    Sound(T),
    /// There is something of that name, and it cannot be read.
    Unsound(String),
}

impl<T> Note<T> {
    /// The note, if it is sound.
    pub(crate) fn sound(&self) -> Option<&T> {
        match self {
            Note::Sound(note) => Some(note),
            Note::Unsound(_) => None,
        }
    }
}

/// Reads a note; none if there is nothing of that name.
pub(super) fn read<T: DeserializeOwned>(directory: &Path, name: &str) -> Option<Note<T>> {
    match read_bytes(&directory.join(name)) {
        Ok(bytes) => Some(decode(name, &bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Note::Unsound(format!("{name}: {error}"))),
    }
}

/// What stands in the file of this name.
pub(super) fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Note<T> {
    match serde_json::from_slice(bytes) {
        Ok(note) => Note::Sound(note),
        Err(error) => Note::Unsound(format!("{name}: {error}")),
    }
}

fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What is longer is cut off, and is no JSON then.
    regular_file::open(path)?.take(NOTE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of a note.
pub(super) fn encode<T: Serialize>(note: &T) -> std::io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(note)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Many times the longest note, and no burden on the memory.
const NOTE_BYTES_MAX: u64 = 1 << 20;

pub(super) const SERVING_NAME: &str = "serving";
pub(super) const LAST_SHUTDOWN_NAME: &str = "last_shutdown";
pub(super) const REFUSED_NAME: &str = "refused";
pub(super) const POISON_NAME: &str = "POISON";

/// An incarnation as text: not every reader of JSON has integers of 64 bits.
mod hexadecimal {
    use super::{Deserialize, Deserializer, Incarnation, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        incarnation: &Incarnation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        incarnation.to_string().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Incarnation, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Incarnation).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_another_version_is_read_as_far_as_it_is_known() {
        let scratch = tempfile::tempdir().unwrap();
        let text = r#"{"incarnation":"00000000000000ff","result":"ate_by_dog","dog":"Rex"}"#;
        std::fs::write(scratch.path().join(LAST_SHUTDOWN_NAME), text).unwrap();
        let note = read::<ShutdownNote>(scratch.path(), LAST_SHUTDOWN_NAME).unwrap();
        let note = note.sound().unwrap();
        assert_eq!(note.incarnation, Incarnation(255));
        assert_eq!(note.result, ShutdownResult::Failed(Reason::Unknown));
        assert_eq!(note.objects, 0);
    }

    #[test]
    fn a_note_that_cannot_be_read_is_not_a_missing_one() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(read::<RefusedNote>(scratch.path(), REFUSED_NAME), None);
        std::fs::write(scratch.path().join(REFUSED_NAME), "").unwrap();
        assert!(matches!(
            read::<RefusedNote>(scratch.path(), REFUSED_NAME),
            Some(Note::Unsound(_))
        ));
        std::fs::create_dir(scratch.path().join(POISON_NAME)).unwrap();
        assert!(matches!(read::<PoisonNote>(scratch.path(), POISON_NAME), Some(Note::Unsound(_))));
    }

    #[test]
    fn what_is_no_regular_file_is_no_sound_note_and_is_told_by_its_kind() {
        for (kind, scratch) in regular_file::impostors(SERVING_NAME) {
            let note = read::<ServingNote>(scratch.path(), SERVING_NAME);
            assert!(
                matches!(&note, Some(Note::Unsound(fault)) if fault.contains(kind)),
                "{kind}: {note:?}"
            );
        }
    }

    #[test]
    fn the_result_of_a_shutdown_reads_back_by_its_name() {
        let failures = Reason::ALL.into_iter().map(ShutdownResult::Failed);
        for result in failures.chain([ShutdownResult::Ok]) {
            assert_eq!(ShutdownResult::from(String::from(result)), result);
        }
    }
}
