//! Signals that come before a process serves.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, mooring};

/// Starts a command that does not come further than to its configuration, which is not written yet.
/// Gives beside it what keeps it there.
#[expect(clippy::zombie_processes, reason = "whoever gets it waits, unless the test has failed")]
fn held_at_its_first_step(subcommand: &[&str]) -> (Child, File) {
    let scratch = tempfile::tempdir().unwrap();
    let fifo = scratch.path().join("mooring.toml");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    let mut command = mooring(&[subcommand, &["--config", fifo.to_str().unwrap()]].concat());
    // A shell lets what it starts in the background ignore interrupts, and that is inherited.
    // SAFETY: `signal` may be called between fork and exec, and the default handler is one for it.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    // That succeeds once the process wants to read.
    let mut writing = OpenOptions::new();
    writing.write(true).custom_flags(libc::O_NONBLOCK);
    loop {
        if let Ok(writer) = writing.open(&fifo) {
            return (child, writer);
        }
        assert!(Instant::now() < until, "it does not read its configuration");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn told_at_its_first_step(subcommand: &[&str], signals: &[i32]) -> Output {
    let (child, _writer) = held_at_its_first_step(subcommand);
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    for signal in signals {
        // SAFETY: `kill` touches no memory; the child was not waited for, so the id is its own.
        assert_eq!(unsafe { libc::kill(pid, *signal) }, 0);
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_server_that_is_told_to_leave_in_its_first_step_says_so_and_has_not_failed() {
    for subcommand in ["master", "store"] {
        for signals in [&[libc::SIGTERM][..], &[libc::SIGINT], &[libc::SIGHUP, libc::SIGTERM]] {
            let output = told_at_its_first_step(&[subcommand, "--dev"], signals);
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{subcommand}: {error}");
            assert_eq!(error, "told to leave before it served\n", "{subcommand}");
        }
    }
}

#[test]
fn a_command_that_is_interrupted_has_failed() {
    for arguments in [&["get", "key"][..], &["stats"]] {
        let output = told_at_its_first_step(arguments, &[libc::SIGINT]);
        assert_eq!(output.status.signal(), Some(libc::SIGINT), "{arguments:?}");
    }
}
