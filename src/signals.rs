//! Signals that come before a server hears them.
//!
//! Until a process has said what it does at a signal, the system ends it at one, without a word and
//! with a status of failure. A supervisor may stop what it has just started, so a server that is
//! stopped before it has begun ends at once, and in order: there is nothing to leave yet.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SA_RESTART, SIGHUP, SIGINT, SIGTERM, sighandler_t};

/// Answers signals from now on until the server [hears](server_hears) them itself. One that asks to
/// read certificates again is answered by the reading that is still to come.
///
/// # Errors
/// What the system refuses it with.
pub(crate) fn answer_for_server() -> io::Result<()> {
    NOBODY_HEARS.store(true, Ordering::SeqCst);
    SIGNALS.into_iter().try_for_each(handle)
}

/// The server has handlers of its own from now on. They call those of before, which do nothing then.
pub(crate) fn server_hears() {
    NOBODY_HEARS.store(false, Ordering::SeqCst);
}

/// It is no server: a signal ends it as it ends every command.
pub(crate) fn leave_to_system() {
    for signal in SIGNALS {
        // SAFETY: the default handler is one for every signal. A refusal cannot be, of these.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

static NOBODY_HEARS: AtomicBool = AtomicBool::new(false);

fn handle(signal: i32) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroes are a whole `sigaction`: no flags, an empty mask, the default handler. The
    // handler of ours has the signature that is wanted without SA_SIGINFO.
    let outcome = unsafe {
        (*action.as_mut_ptr()).sa_sigaction = at_signal as *const () as sighandler_t;
        (*action.as_mut_ptr()).sa_flags = SA_RESTART;
        libc::sigaction(signal, action.as_ptr(), std::ptr::null_mut())
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Only does what is allowed in the midst of anything else.
extern "C" fn at_signal(signal: i32) {
    if signal == SIGHUP || !NOBODY_HEARS.load(Ordering::SeqCst) {
        return;
    }
    let mut output = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: `poll`, `write` and `_exit` may be called from a handler; the text outlives the call.
    unsafe {
        // A pipe that nobody reads must not keep the process: one that takes anything takes this.
        if libc::poll(&raw mut output, 1, 0) == 1 && output.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, TOLD_TO_LEAVE.as_ptr().cast(), TOLD_TO_LEAVE.len());
        }
        libc::_exit(0);
    }
}

/// By itself: nobody waits for what the log has not written yet.
const TOLD_TO_LEAVE: &[u8] = b"told to leave before it served\n";
