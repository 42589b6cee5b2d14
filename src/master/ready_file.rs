//! The file that tells scripts that the master serves, and where.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use serde::Serialize;

/// What the file says.
#[derive(Serialize)]
pub(super) struct Ready {
    /// The process.
    pub(super) pid: u32,
    /// Where clients reach the QUIC listener, the loopback first; nowhere without QUIC.
    pub(super) rpc: Vec<SocketAddr>,
    /// Where the admin pages are.
    pub(super) metrics: SocketAddr,
    /// Where clients of Mooncake reach it.
    pub(super) mooncake: Option<SocketAddr>,
    /// Where the metadata store is.
    pub(super) metadata: Option<SocketAddr>,
    /// The SHA-256 of the certificate, in hexadecimal; none without QUIC.
    pub(super) cert_sha256: Option<String>,
}

/// A file that this process has written.
pub(super) struct Written {
    path: PathBuf,
    text: String,
}

/// Says early whether the file can be written and replaced: its directory must be there, and what
/// is in its place must be a file. Changes nothing.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)?;
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    is_there(path).map(|_| ())
}

/// Writes the file beside its place and renames it, so that nobody reads half of it.
pub(super) fn write(path: &Path, ready: &Ready) -> io::Result<Written> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", ready.pid));
    let mut text = serde_json::to_string(ready)?;
    text.push('\n');
    is_there(path)?;
    let written = fs::write(&fresh, &text).and_then(|()| fs::rename(&fresh, path));
    if let Err(error) = written {
        // On a full disk it may be there, and be empty.
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(Written { path: path.to_owned(), text })
}

/// Removes the file of a former process, which may be missing: as long as it is there it says that
/// somebody serves. To be called once no other process can be the one.
pub(super) fn remove_former(path: &Path) -> io::Result<()> {
    if is_there(path)? { fs::remove_file(path) } else { Ok(()) }
}

impl Written {
    /// Removes the file, unless another process has put its own in its place.
    pub(super) fn withdraw(&self) {
        let own = |text: String| text == self.text;
        let outcome = match fs::read_to_string(&self.path).map(own) {
            Ok(true) => fs::remove_file(&self.path),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match outcome {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "cannot remove the ready file");
            }
            _ => {}
        }
    }
}

/// Whether there is a file; what is something else must be left alone.
fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(io::Error::other("in its place is something that is no file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(pid: u32) -> Ready {
        let metrics = SocketAddr::from(([127, 0, 0, 1], 1));
        Ready { pid, rpc: Vec::new(), metrics, mooncake: None, metadata: None, cert_sha256: None }
    }

    #[test]
    fn only_a_file_is_replaced_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [Path::new("/dev/null"), directory.path(), &link] {
            assert!(check(path).is_err() && remove_former(path).is_err(), "{path:?}");
            assert!(write(path, &ready(1)).is_err() && fs::symlink_metadata(path).is_ok());
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    fn a_directory_that_is_missing_is_told_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none/ready.json");
        assert_eq!(check(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        check(&directory.path().join("ready.json")).unwrap();
        check(Path::new("ready.json")).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_a_former_process_is_removed_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        fs::write(&path, "of a former process").unwrap();
        check(&path).unwrap();
        write(&path, &ready(1)).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\"pid\":1"));
        remove_former(&path).unwrap();
        remove_former(&path).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_process_withdraws_its_own_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        let (former, later) = (write(&path, &ready(1)).unwrap(), write(&path, &ready(2)).unwrap());
        former.withdraw();
        assert!(fs::read_to_string(&path).unwrap().contains("\"pid\":2"));
        later.withdraw();
        later.withdraw();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
