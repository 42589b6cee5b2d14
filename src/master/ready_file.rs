//! The file that tells scripts that the master serves, and where.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

/// What the file says.
#[derive(Serialize)]
pub(super) struct Ready {
    /// The process.
    pub(super) pid: u32,
    /// Where clients reach the QUIC listener, the loopback first.
    pub(super) rpc: Vec<SocketAddr>,
    /// Where the admin pages are.
    pub(super) metrics: SocketAddr,
    /// Where the listener of the other protocol is; there is none yet.
    pub(super) mooncake: Option<SocketAddr>,
    /// The SHA-256 of the certificate, in hexadecimal.
    pub(super) cert_sha256: String,
}

/// Writes the file beside its place and renames it, so that nobody reads half of it.
pub(super) fn write(path: &Path, ready: &Ready) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", ready.pid));
    let mut text = serde_json::to_string(ready)?;
    text.push('\n');
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

/// Removes the file, of a former process or at the drain. It may be missing.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove the ready file");
        }
        _ => {}
    }
}
