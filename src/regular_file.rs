//! Opens a file that must be a regular one.
//!
//! To open a FIFO waits until somebody opens its other end, so one that stands in the place of a file
//! would hang whoever reads it. A device may give bytes without end.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file to read it. It waits for nobody, and follows no symbolic link.
///
/// # Errors
/// When it cannot be opened; of the kind `InvalidInput` when it is no regular file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// As [`open`], in a way of the caller's own.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    match options.custom_flags(flags).open(path) {
        Ok(file) => check(file.metadata()?.file_type()).map(|()| file),
        // Links, sockets and directories are refused by the system, in words that do not name them.
        Err(error) => match fs::symlink_metadata(path) {
            Ok(found) => check(found.file_type()).and(Err(error)),
            Err(_) => Err(error),
        },
    }
}

/// Refuses what is no regular file, in words that name it.
///
/// # Errors
/// Of the kind `InvalidInput`.
pub(crate) fn check(found: FileType) -> io::Result<()> {
    let name = if found.is_file() {
        return Ok(());
    } else if found.is_fifo() {
        "a FIFO"
    } else if found.is_symlink() {
        "a symbolic link"
    } else if found.is_dir() {
        "a directory"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("is {name} and no regular file")))
}

/// Puts one of each kind that is no regular file under a name, in a directory of its own.
#[cfg(test)]
pub(crate) fn impostors(name: &str) -> Vec<(&'static str, tempfile::TempDir)> {
    let made = |kind: &'static str, make: &dyn Fn(&Path)| {
        let scratch = tempfile::tempdir().unwrap();
        make(&scratch.path().join(name));
        (kind, scratch)
    };
    vec![
        made("FIFO", &|path| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        }),
        made("symbolic link", &|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
        made("directory", &|path| fs::create_dir(path).unwrap()),
        made("socket", &|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_by_name_and_waits_for_nobody() {
        for (kind, scratch) in impostors("file") {
            for options in
                [OpenOptions::new().read(true), OpenOptions::new().read(true).write(true)]
            {
                let error = open_with(options, &scratch.path().join("file")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{kind}");
                assert!(error.to_string().contains(kind), "{error}");
            }
        }
        let error = open(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("a device"), "{error}");
    }

    #[test]
    fn a_regular_file_is_opened_and_a_missing_one_is_missing() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&path, "text").unwrap();
        assert_eq!(io::read_to_string(open(&path).unwrap()).unwrap(), "text");
    }
}
