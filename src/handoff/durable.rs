//! The steps on the file system that the protocol of the directory is made of. After a crash at any
//! moment, each of them has happened wholly or not at all.
//!
//! A rename is atomic, but it is in the memory of the system until the directory is synced: a power
//! failure may undo it. So every step here syncs the directory before it returns. Of the content of
//! a file that is renamed the same holds; it is synced before.
//!
//! Two things are not promised. A file that is removed or renamed away may come back when the
//! machine fails before the sync has returned. And when a sync fails, it is not known which of the
//! two states the disk has: the caller must treat the step as neither done nor undone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Makes a directory and those that lead to it. When it returns, all of them last.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => create_directory(parent)?,
        // A relative path of one part stands in the current directory, which exists.
        None => return create_one(path, Path::new(".")),
    }
    create_one(path, path.parent().unwrap_or(path))
}

fn create_one(path: &Path, parent: &Path) -> io::Result<()> {
    attempt()?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            step("make a directory");
            sync_directory(parent)
        }
    }
}

/// Makes the names in a directory last as they are now.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    attempt()?;
    File::open(path)?.sync_all()?;
    step("sync a directory");
    Ok(())
}

/// Replaces a file. When it returns, the new content lasts; until then a reader finds the former
/// content or the new one, never a mixture and never a part.
pub(super) fn replace_file(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let fresh = directory.join(temporary_name());
    let outcome = write_new(&fresh, content).and_then(|()| rename(directory, &fresh, name));
    if outcome.is_err() {
        // The next start removes it otherwise.
        let _ = fs::remove_file(&fresh);
    }
    outcome
}

/// Writes a file that does not exist yet. When it returns, its content lasts, but its name only
/// once the directory is synced. Only the user of the master may read it.
pub(super) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    attempt()?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    step("make a file");
    attempt()?;
    file.write_all(content)?;
    step("write a file");
    attempt()?;
    file.sync_all()
}

/// Gives what is at a path another name in the directory. When it returns, that lasts; until then
/// it has one of the two names.
///
/// A directory never replaces one that has something in it: then this fails.
pub(super) fn rename(directory: &Path, from: &Path, to: &str) -> io::Result<()> {
    attempt()?;
    fs::rename(from, directory.join(to))?;
    step(to);
    sync_directory(directory)
}

/// Removes a file that may be missing. When it returns, it stays away.
pub(super) fn remove_file(directory: &Path, name: &str) -> io::Result<()> {
    attempt()?;
    match fs::remove_file(directory.join(name)) {
        Ok(()) => {
            step("remove a file");
            sync_directory(directory)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a file or directory that may be missing a name that nobody reads. When it returns, it is
/// void, also after a crash; its content may take longer to delete. Gives the new path.
pub(super) fn make_void(directory: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let void = void_name();
    match rename(directory, &directory.join(name), &void) {
        Ok(()) => Ok(Some(directory.join(void))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes a file, or a directory with what is in it; it may be missing. Nobody may rely on it: it
/// promises nothing about a crash.
pub(super) fn delete(path: &Path) -> io::Result<()> {
    attempt()?;
    let is_directory = match fs::symlink_metadata(path) {
        Ok(found) => found.is_dir(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// A name for what is being written.
pub(super) fn temporary_name() -> String {
    unique_name(WRITING_PREFIX)
}

/// A name for what is void.
pub(super) fn void_name() -> String {
    unique_name(VOID_PREFIX)
}

/// Whether a name is that of something unfinished or void, which is to be deleted.
pub(super) fn is_leftover(name: &str) -> bool {
    name.starts_with(WRITING_PREFIX) || name.starts_with(VOID_PREFIX)
}

fn unique_name(prefix: &str) -> String {
    format!("{prefix}{}-{:016x}", std::process::id(), rand::random::<u64>())
}

const WRITING_PREFIX: &str = "WRITING-";
const VOID_PREFIX: &str = "VOID-";

#[cfg(not(test))]
pub(super) fn step(_: &str) {}

#[cfg(not(test))]
pub(super) fn attempt() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use probe::{attempt, step};

/// Lets a test look at the directory after each step, and lets steps fail before they are made.
#[cfg(test)]
pub(crate) mod probe {
    use std::cell::RefCell;
    use std::io;

    type Look = Box<dyn FnMut(&str)>;
    type Fail = Box<dyn FnMut() -> io::Result<()>>;

    thread_local! {
        static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
        static FAIL: RefCell<Option<Fail>> = const { RefCell::new(None) };
    }

    /// Asks this before each step of this thread from now on, or nothing any more.
    pub(crate) fn fail_with(fail: Option<Fail>) {
        FAIL.with(|place| *place.borrow_mut() = fail);
    }

    /// Tells that a step is about to be made.
    pub(in crate::handoff) fn attempt() -> io::Result<()> {
        FAIL.with(|place| place.borrow_mut().as_mut().map_or(Ok(()), |fail| fail()))
    }

    /// Calls this after each step of this thread from now on, or nothing any more.
    pub(in crate::handoff) fn look_with(look: Option<Look>) {
        LOOK.with(|place| *place.borrow_mut() = look);
    }

    /// Tells that a step was made.
    pub(in crate::handoff) fn step(name: &str) {
        LOOK.with(|place| {
            if let Some(look) = place.borrow_mut().as_mut() {
                look(name);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_with_those_that_lead_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let deep = scratch.path().join("a/b/c");
        create_directory(&deep).unwrap();
        create_directory(&deep).unwrap();
        assert!(deep.is_dir());
        fs::write(scratch.path().join("file"), "").unwrap();
        assert!(create_directory(&scratch.path().join("file")).is_err());
        assert!(create_directory(&scratch.path().join("file/below")).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_and_nothing_else_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("name/inside")).unwrap();
        assert!(replace_file(scratch.path(), "name", b"new").is_err());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        replace_file(scratch.path(), "other", b"old").unwrap();
        replace_file(scratch.path(), "other", b"new").unwrap();
        assert_eq!(fs::read(scratch.path().join("other")).unwrap(), b"new");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_missing_can_be_removed_voided_and_deleted() {
        let scratch = tempfile::tempdir().unwrap();
        remove_file(scratch.path(), "none").unwrap();
        assert_eq!(make_void(scratch.path(), "none").unwrap(), None);
        delete(&scratch.path().join("none")).unwrap();
    }

    #[test]
    fn a_directory_does_not_replace_one_that_has_something_in_it() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("READY")).unwrap();
        fs::create_dir_all(scratch.path().join("CLAIMED/inside")).unwrap();
        assert!(rename(scratch.path(), &scratch.path().join("READY"), "CLAIMED").is_err());
        assert!(scratch.path().join("READY").is_dir());
    }
}
