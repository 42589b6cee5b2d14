//! The runtimes of a master: one serves, one conducts.
//!
//! What serves the ports and the shards may be busy or hang. Signals are heard, deadlines are kept and
//! the directory is written to all the same, by a thread that has nothing else to do.

use std::future::pending;
use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Starts what serves, on so many threads, until the process ends.
///
/// One thread wakes nobody: for batches of 128 keys on two cores a get takes a quarter less of the
/// processor than with two threads, and a put a third less, and replies leave in fuller packets.
///
/// # Errors
/// What the system refuses.
pub(super) fn serving(threads: usize) -> io::Result<Handle> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(threads).thread_name(NAME).enable_all().build()?;
    let handle = runtime.handle().clone();
    // Some thread has to drive a runtime without threads of its own; another one only keeps it.
    std::thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// What starts and ends the process.
///
/// # Errors
/// What the system refuses.
pub(super) fn conducting() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

const NAME: &str = "mooring";
