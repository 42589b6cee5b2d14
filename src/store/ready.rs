//! The file that tells scripts that the store serves, and where.

use std::fs;
use std::path::Path;

use mooring_proto::SegmentId;
use serde::Serialize;

use crate::command::CommandError;
use crate::tls;

/// Whether a ready file could be written there: in a directory that exists, and over nothing but
/// another regular file.
///
/// # Errors
/// `Failed` naming the path.
pub(crate) fn check(path: &Path) -> Result<(), CommandError> {
    let unusable = |error: &str| Err(CommandError::failed(path.display(), error));
    let directory = match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
        None => return unusable("is no file"),
    };
    if let Err(error) = fs::read_dir(directory) {
        return unusable(&error.to_string());
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => unusable("is there and no regular file"),
        _ => Ok(()),
    }
}

/// What the file says; the names are an interface for scripts.
#[derive(Debug, Serialize)]
pub(crate) struct Ready {
    pid: u32,
    /// Where peers reach the data plane.
    data: Vec<String>,
    segments: Vec<String>,
    cert_sha256: String,
}

impl Ready {
    /// A store at this address with these segments and this certificate.
    pub(crate) fn new(address: &str, segments: &[SegmentId], sha256: &[u8; 32]) -> Ready {
        Ready {
            pid: std::process::id(),
            data: vec![address.to_owned()],
            segments: segments.iter().map(SegmentId::to_string).collect(),
            cert_sha256: tls::hexadecimal(sha256),
        }
    }

    /// Writes beside the path and renames, so that nobody reads a part of it.
    ///
    /// # Errors
    /// `Failed` naming the path.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CommandError> {
        let unwritable = |error: String| CommandError::failed(path.display(), error);
        let json = serde_json::to_vec(self).map_err(|error| unwritable(error.to_string()))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        fs::write(&beside, json)
            .and_then(|()| fs::rename(&beside, path))
            .map_err(|error| unwritable(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_in_a_directory_that_exists_will_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        check(&path).unwrap();
        fs::write(&path, "of a former store").unwrap();
        check(&path).unwrap();
        check(Path::new("ready.json")).unwrap();
        for path in [Path::new("/dev/null"), Path::new("/nonexistent/x"), directory.path()] {
            let error = check(path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn the_file_has_the_names_that_scripts_rely_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        Ready::new("127.0.0.1:7", &[SegmentId(1)], &[0xab; 32]).write(&path).unwrap();
        let told: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(told["pid"], std::process::id());
        assert_eq!(told["data"][0], "127.0.0.1:7");
        assert_eq!(told["segments"][0], "00000000000000000000000000000001");
        assert_eq!(told["cert_sha256"], "ab".repeat(32));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
