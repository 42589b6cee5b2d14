//! How clients of `--dev` on the same machine learn which certificate to expect: the master leaves
//! its fingerprint in a directory that only its user can write to.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{hexadecimal, parse_fingerprint};

/// The fingerprint of the development master at `host:port`, as it left it on this machine.
///
/// # Errors
/// If no development master of this user has left one for the port, or the directory could have
/// been written to by somebody else.
pub(crate) fn pinned_fingerprint(master: &str) -> Result<[u8; 32], DevError> {
    read(&directory(), port_of(master)?)
}

/// What the development master at `host:port` has left, for who ends it before it can withdraw that
/// itself.
///
/// # Errors
/// As [`pinned_fingerprint`].
pub(crate) fn published(master: &str) -> Result<Published, DevError> {
    let (directory, port) = (directory(), port_of(master)?);
    let fingerprint = read(&directory, port)?;
    Ok(Published { path: path_in(&directory, port), fingerprint })
}

fn port_of(master: &str) -> Result<u16, DevError> {
    let port = master.rsplit(':').next().and_then(|port| port.parse().ok());
    port.ok_or_else(|| DevError::NoPort { master: master.to_owned() })
}

fn path_in(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!("{port}.sha256"))
}

/// Leaves the fingerprint of the master at this port for its clients.
///
/// # Errors
/// If the directory cannot be made, or could be written to by somebody else.
pub(crate) fn publish(port: u16, fingerprint: &[u8; 32]) -> Result<Published, DevError> {
    write(&directory(), port, fingerprint)
}

/// A fingerprint that was left.
pub(crate) struct Published {
    path: PathBuf,
    fingerprint: [u8; 32],
}

impl Published {
    /// Removes it, unless another master has left its own in its place. One that stays, say of a
    /// killed master, does no harm but for a less clear error.
    pub(crate) fn withdraw(&self) {
        let found = fs::read_to_string(&self.path).ok();
        if found.and_then(|text| parse_fingerprint(&text)) == Some(self.fingerprint) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Why there is no fingerprint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    /// The address has no port.
    #[error("`{master}` has no port")]
    NoPort {
        /// The address.
        master: String,
    },
    /// Nothing was left for the port.
    #[error(
        "no master with --dev of this user has port {port} on this machine; \
         for one elsewhere give the fingerprint that it printed by --pin-sha256"
    )]
    NotFound {
        /// The port.
        port: u16,
    },
    /// The file or directory is not to be trusted, or broken.
    #[error("{path}: {reason}")]
    Unusable {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
}

fn directory() -> PathBuf {
    let parent = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(parent) if Path::new(&parent).is_dir() => PathBuf::from(parent),
        _ => PathBuf::from("/tmp"),
    };
    parent.join(format!("mooring-dev-{}", own_user()))
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn read(directory: &Path, port: u16) -> Result<[u8; 32], DevError> {
    let path = path_in(directory, port);
    match fs::read_to_string(&path) {
        Ok(text) => {
            check_directory(directory)?;
            parse_fingerprint(&text).ok_or_else(|| unusable(&path, "not a fingerprint"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DevError::NotFound { port }),
        Err(error) => Err(unusable(&path, error)),
    }
}

fn write(directory: &Path, port: u16, fingerprint: &[u8; 32]) -> Result<Published, DevError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unusable(directory, error));
        }
        _ => check_directory(directory)?,
    }
    let path = path_in(directory, port);
    let fresh = directory.join(format!("{port}.{}.new", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(|error| unusable(&fresh, error))?;
    // Renamed into place, so that a client never reads half of it.
    writeln!(file, "{}", hexadecimal(fingerprint))
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|error| unusable(&path, error))?;
    Ok(Published { path, fingerprint: *fingerprint })
}

/// The directory may lie in one that everybody can write to: it must be a real directory of this
/// user that nobody else can enter.
fn check_directory(directory: &Path) -> Result<(), DevError> {
    let found = fs::symlink_metadata(directory).map_err(|error| unusable(directory, error))?;
    if !found.is_dir() || found.uid() != own_user() || found.mode() & 0o077 != 0 {
        return Err(unusable(directory, "must be a directory of this user with mode 700"));
    }
    Ok(())
}

fn unusable(path: &Path, reason: impl ToString) -> DevError {
    DevError::Unusable { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_master_leaves_its_clients_find() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("dev");
        write(&directory, 7, &[1; 32]).unwrap();
        write(&directory, 7, &[2; 32]).unwrap();
        assert_eq!(read(&directory, 7).unwrap(), [2; 32]);
        assert!(matches!(read(&directory, 8), Err(DevError::NotFound { port: 8 })));
    }

    #[test]
    fn a_master_that_leaves_takes_its_own_fingerprint_away_and_no_other() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("dev");
        let former = write(&directory, 7, &[1; 32]).unwrap();
        let later = write(&directory, 7, &[2; 32]).unwrap();
        former.withdraw();
        assert_eq!(read(&directory, 7).unwrap(), [2; 32]);
        later.withdraw();
        assert!(matches!(read(&directory, 7), Err(DevError::NotFound { port: 7 })));
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_trusted() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("dev");
        write(&directory, 7, &[1; 32]).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(read(&directory, 7), Err(DevError::Unusable { .. })));
        assert!(matches!(write(&directory, 7, &[1; 32]), Err(DevError::Unusable { .. })));
    }

    #[test]
    fn a_link_to_a_directory_is_not_trusted() {
        let parent = tempfile::tempdir().unwrap();
        let (real, link) = (parent.path().join("real"), parent.path().join("link"));
        write(&real, 7, &[1; 32]).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(matches!(read(&link, 7), Err(DevError::Unusable { .. })));
    }

    #[test]
    fn an_address_without_a_port_is_refused() {
        assert!(matches!(pinned_fingerprint("localhost"), Err(DevError::NoPort { .. })));
    }
}
