//! The key of stateless resets. When it outlives the process, peers of the former one learn from
//! the first answer of the next one that their connection is gone, instead of from its silence.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::hmac;
use quinn::crypto::HmacKey;

use crate::regular_file;

/// The key that is kept in this directory; made if there is none. `None`, with a warning, if it cannot be
/// kept: a master that does not start for it would take a claimed snapshot along.
pub(crate) fn kept(directory: &Path) -> Option<Arc<dyn HmacKey>> {
    load(directory)
        .inspect_err(|error| {
            tracing::warn!(
                %error,
                directory = %directory.display(),
                "the key of stateless resets cannot be kept; peers will notice the next restart late"
            );
        })
        .ok()
}

/// # Errors
/// If the directory cannot be written to, or the file is not such a key.
fn load(directory: &Path) -> io::Result<Arc<dyn HmacKey>> {
    let path = directory.join("quic-reset-key");
    let mut bytes = [0; KEY_BYTES];
    match regular_file::open(&path) {
        Ok(mut file) => file.read_exact(&mut bytes).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            rand::RngCore::fill_bytes(&mut rand::rng(), &mut bytes);
            save(&path, &bytes)?;
        }
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
    }
    Ok(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
}

fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

/// As long as the output of the hash.
const KEY_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_then_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let sign = |key: Arc<dyn HmacKey>| {
            let mut signature = vec![0; key.signature_len()];
            key.sign(b"connection", &mut signature);
            signature
        };
        let first = sign(load(directory.path()).unwrap());
        assert_eq!(sign(load(directory.path()).unwrap()), first);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(sign(load(other.path()).unwrap()), first);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_by_name() {
        for (kind, directory) in regular_file::impostors("quic-reset-key") {
            let Err(error) = load(directory.path()) else { panic!("{kind} is taken for a key") };
            let text = error.to_string();
            assert!(text.contains("quic-reset-key") && text.contains(kind), "{text}");
        }
    }

    #[test]
    fn half_a_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("quic-reset-key"), b"short").unwrap();
        assert!(load(directory.path()).is_err());
    }
}
