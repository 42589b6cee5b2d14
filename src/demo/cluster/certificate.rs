//! A certificate that outlives the masters that show it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};

use crate::command::CommandError;

/// A certificate that signs itself, with its key, in PEM.
#[derive(Debug)]
pub(super) struct CertificateFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl CertificateFiles {
    /// Makes one in this directory. Peers know it by its fingerprint, so the name in it is for
    /// tools that look.
    ///
    /// # Errors
    /// A file that cannot be written, by name.
    pub(super) fn make(directory: &Path) -> Result<CertificateFiles, CommandError> {
        let cannot_make = |error| CommandError::failed("cannot make a certificate", error);
        let key = KeyPair::generate().map_err(cannot_make)?;
        let params = CertificateParams::new(["localhost".to_owned()]).map_err(cannot_make)?;
        let certificate = params.self_signed(&key).map_err(cannot_make)?;
        let files = CertificateFiles {
            certificate: directory.join("master.crt"),
            key: directory.join("master.key"),
        };
        write_private(&files.certificate, &certificate.pem())?;
        write_private(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

fn write_private(path: &Path, text: &str) -> Result<(), CommandError> {
    File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CommandError::failed(path.display(), error))
}
