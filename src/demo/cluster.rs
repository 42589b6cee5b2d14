//! A master and its stores as child processes on loopback.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::Deserialize;

use crate::command::CommandError;

/// What the cluster is made of.
#[derive(Clone, Debug)]
pub(crate) struct ClusterPlan {
    /// How many stores.
    pub(crate) stores: u32,
    /// The memory of each.
    pub(crate) store_bytes: u64,
    /// How long a reader may rely on what the master told it.
    pub(crate) lease_ttl: Duration,
    /// How full the pool may get.
    pub(crate) watermark_ratio: f64,
    /// Where the logs of the processes stay; by default they go with the cluster.
    pub(crate) logs: Option<PathBuf>,
}

/// The running processes. They end with this value, and with this process whatever ends it.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Stores first, the master last.
    processes: Vec<Process>,
    directory: PathBuf,
    keep_directory: bool,
    master: MasterReady,
}

#[derive(Debug)]
struct Process {
    name: String,
    child: Child,
}

/// What the ready file of the master says.
#[derive(Clone, Debug, Deserialize)]
struct MasterReady {
    rpc: Vec<String>,
    cert_sha256: String,
}

impl Cluster {
    /// Starts the processes and waits until all of them serve.
    ///
    /// Must be called on the thread that stays as long as the process: the kernel ends the children
    /// with the thread that started them.
    ///
    /// # Errors
    /// Which process does not start, and where its log is.
    pub(crate) async fn start(plan: &ClusterPlan) -> Result<Cluster, CommandError> {
        let (directory, keep_directory) = match &plan.logs {
            Some(directory) => (directory.clone(), true),
            None => (temporary_directory(), false),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| CommandError::failed(directory.display(), error))?;
        let master = MasterReady { rpc: Vec::new(), cert_sha256: String::new() };
        let mut cluster = Cluster { processes: Vec::new(), directory, keep_directory, master };
        let started = cluster.start_processes(plan).await;
        if started.is_err() {
            // Whoever reads the error will want to read the logs.
            cluster.keep_directory = true;
        }
        started.map(|()| cluster)
    }

    /// The address of the master.
    pub(crate) fn address(&self) -> &str {
        self.master.rpc.first().map_or("", String::as_str)
    }

    /// The fingerprint of the master's certificate, in hexadecimal.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.master.cert_sha256
    }

    /// Where the logs are, and leaves them there.
    pub(crate) fn keep_logs(&mut self) -> &Path {
        self.keep_directory = true;
        &self.directory
    }

    /// Ends the processes in an orderly way, the stores first, and forcibly what takes too long.
    pub(crate) async fn stop(mut self) {
        let stores = self.processes.len().saturating_sub(1);
        let (stores, master) = self.processes.split_at_mut(stores);
        for group in [stores, master] {
            group.iter_mut().for_each(Process::terminate);
            let deadline = Instant::now() + STOP_TIMEOUT;
            while group.iter_mut().any(Process::runs) && Instant::now() < deadline {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    async fn start_processes(&mut self, plan: &ClusterPlan) -> Result<(), CommandError> {
        let master_file = self.directory.join("master.json");
        let mut command = self.command("master")?;
        command
            .args(["--dev", "--rpc-address", "127.0.0.1", "--rpc-port", "0"])
            .args(["--metrics-address", "127.0.0.1", "--metrics-port", "0"])
            .args(["--default-kv-lease-ttl", &format!("{}ms", plan.lease_ttl.as_millis())])
            .args(["--eviction-high-watermark-ratio", &plan.watermark_ratio.to_string()])
            .arg("--ready-file")
            .arg(&master_file);
        self.spawn("master", &mut command)?;
        let ready = self.wait_for("master", &master_file).await?;
        self.master = serde_json::from_slice(&ready)
            .map_err(|error| CommandError::failed(master_file.display(), error))?;

        for index in 1..=plan.stores {
            let name = format!("store-{index}");
            let mut command = self.command("store")?;
            command
                .args(["--master", self.address(), "--pin-sha256", self.fingerprint()])
                .args(["--memory", &plan.store_bytes.to_string(), "--name", &name])
                .args(["--address", "127.0.0.1", "--data-port", "0"])
                .arg("--ready-file")
                .arg(self.directory.join(format!("{name}.json")));
            self.spawn(&name, &mut command)?;
        }
        for index in 1..=plan.stores {
            let name = format!("store-{index}");
            let file = self.directory.join(format!("{name}.json"));
            self.wait_for(&name, &file).await?;
        }
        Ok(())
    }

    /// This program with a subcommand, and without what the environment would set.
    fn command(&self, subcommand: &str) -> Result<Command, CommandError> {
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

    fn spawn(&mut self, name: &str, command: &mut Command) -> Result<(), CommandError> {
        let log = self.directory.join(format!("{name}.log"));
        let child = File::create(&log)
            .and_then(|log| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn());
        let child =
            child.map_err(|error| CommandError::failed(format!("cannot start {name}"), error))?;
        // The master stays last.
        let place = self.processes.len().saturating_sub(1);
        self.processes.insert(place, Process { name: name.to_owned(), child });
        Ok(())
    }

    /// Waits for the ready file of a process and gives its content.
    async fn wait_for(&mut self, name: &str, file: &Path) -> Result<Vec<u8>, CommandError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Ok(content) = fs::read(file) {
                return Ok(content);
            }
            let process = self.processes.iter_mut().find(|process| process.name == name);
            let runs = process.is_some_and(Process::runs);
            if !runs || Instant::now() > deadline {
                let log = self.directory.join(format!("{name}.log"));
                let text = format!("{name} does not start; its log is {}", log.display());
                return Err(CommandError::Failed(text));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Fails only for a process that has already ended.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if !self.keep_directory {
            // What is left in the temporary directory does no harm.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// A new place of its own, so that several demos do not meet.
fn temporary_directory() -> PathBuf {
    let suffix: u64 = StdRng::from_os_rng().random();
    std::env::temp_dir().join(format!("mooring-demo-{suffix:016x}"))
}

impl Process {
    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn terminate(&mut self) {
        if self.runs()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // Fails only for a process that has ended meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// How often to look whether a process is as far.
const POLL: Duration = Duration::from_millis(10);

/// How long a process may take until it serves, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the stores, and then the master, may take to leave.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
