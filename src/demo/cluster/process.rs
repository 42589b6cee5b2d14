//! One child process with its log.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::POLL;
use crate::command::CommandError;

/// A running process. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    files: Files,
}

/// What a process writes.
#[derive(Debug)]
pub(super) struct Files {
    name: String,
    log: PathBuf,
    /// Whether the log follows what is there already.
    pub(super) log_goes_on: bool,
    /// Exists while the process serves.
    ready: PathBuf,
}

impl Files {
    /// Those of the process of this name.
    pub(super) fn new(directory: &Path, name: &str) -> Files {
        Files {
            name: name.to_owned(),
            log: directory.join(format!("{name}.log")),
            log_goes_on: false,
            ready: directory.join(format!("{name}.json")),
        }
    }
}

/// This program with a subcommand, and without what the environment would set.
///
/// # Errors
/// If the program is gone.
pub(super) fn command(subcommand: &str) -> Result<Command, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed("cannot find this program", error))?;
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MOORING_") {
            command.env_remove(name);
        }
    }
    command.arg(subcommand);
    // SAFETY: between fork and exec the closure makes one system call and touches no memory
    // that another thread could hold locked.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    Ok(command)
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// If log or process cannot be made.
    pub(super) fn spawn(mut command: Command, files: Files) -> Result<Process, CommandError> {
        // One that was left behind would say that this process serves; usually there is none.
        let _ = fs::remove_file(&files.ready);
        let mut log = File::options();
        log.create(true).write(true).append(files.log_goes_on).truncate(!files.log_goes_on);
        let child = log.open(&files.log).and_then(|log| {
            command.arg("--ready-file").arg(&files.ready);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
        });
        let cannot_start =
            |error| CommandError::failed(format!("cannot start {}", files.name), error);
        Ok(Process { child: child.map_err(cannot_start)?, files })
    }

    /// Where its log is.
    pub(super) fn log(&self) -> &Path {
        &self.files.log
    }

    /// Waits for its ready file and gives the content.
    ///
    /// # Errors
    /// If it ends before, or takes too long.
    pub(super) async fn ready(&mut self) -> Result<Vec<u8>, CommandError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Ok(content) = fs::read(&self.files.ready) {
                return Ok(content);
            }
            if !self.runs() || Instant::now() > deadline {
                let Files { name, log, .. } = &self.files;
                let text = format!("{name} does not start; its log is {}", log.display());
                return Err(CommandError::Failed(text));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Whether it has not ended.
    pub(super) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to leave.
    pub(super) fn terminate(&mut self) {
        if self.runs()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // Fails only for a process that has ended meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Asks it to leave and gives how it ended; `None` if it did not in time.
    pub(super) async fn end_within(&mut self, time: Duration) -> Option<ExitStatus> {
        self.terminate();
        let deadline = Instant::now() + time;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => tokio::time::sleep(POLL).await,
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long a process may take until it serves, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
