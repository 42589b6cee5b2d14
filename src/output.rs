//! What commands write to standard output and to standard error.
//!
//! All of it goes through here, so that every command ends in the same way when its output goes
//! nowhere. A reader that has gone, as `head` does, has seen enough: that is no failure. A device that
//! is full is one. The macros of the standard library would panic at either.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::command::CommandError;

/// Writes a text to standard output, whole; gives whether somebody still reads.
///
/// # Errors
/// When it cannot be written, but for a reader that has gone.
pub(crate) fn print(text: impl Display) -> Result<bool, CommandError> {
    let mut output = io::stdout().lock();
    // Flushed here: at the end of the process nobody would tell that it went nowhere.
    reads_on(write!(output, "{text}").and_then(|()| output.flush()))
}

/// As [`print`], with the end of the line.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_line(text: impl Display) -> Result<bool, CommandError> {
    print(format_args!("{text}\n"))
}

/// Whether somebody still reads, by the outcome of a write to standard output.
///
/// # Errors
/// As [`print`].
pub(crate) fn reads_on(written: io::Result<()>) -> Result<bool, CommandError> {
    let written = if WAS_CLOSED.load(Ordering::Relaxed) {
        Err(io::Error::from_raw_os_error(libc::EBADF))
    } else {
        written
    };
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::failed("standard output", error)),
    }
}

/// Writes a line for people to standard error. Where nobody takes it there is nobody to tell that.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether the process was started without a standard output. What is written to it then goes nowhere
/// and succeeds: before `main` begins, the standard library has opened `/dev/null` in its place.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// So this looks before that; the loader calls what stands in this section of the program.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: it asks for the flags of a number, whatever that is, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_full_device_is_one() {
        assert!(reads_on(Ok(())).unwrap());
        assert!(!reads_on(Err(ErrorKind::BrokenPipe.into())).unwrap());
        let error = reads_on(Err(ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().starts_with("standard output: "), "{error}");
    }
}
