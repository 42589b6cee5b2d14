//! A master and its stores as child processes on loopback.

mod certificate;
mod process;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Deserialize;

use self::certificate::CertificateFiles;
use self::process::{Files, Process};
use crate::command::CommandError;

/// What the cluster is made of.
#[derive(Clone, Debug)]
pub(crate) struct ClusterPlan {
    /// How many stores.
    pub(crate) stores: u32,
    /// The memory of each.
    pub(crate) store_bytes: u64,
    /// How many shards the master has; by default as many as it takes.
    pub(crate) shards: Option<u16>,
    /// How long a reader may rely on what the master told it.
    pub(crate) lease_ttl: Duration,
    /// How full the pool may get.
    pub(crate) watermark_ratio: f64,
    /// Where the logs of the processes stay; by default they go with the cluster.
    pub(crate) logs: Option<PathBuf>,
    /// Whether the master will be restarted.
    pub(crate) restarts: bool,
    /// Where the directory is made in which a master that leaves hands its index to the next one;
    /// by default beside the logs.
    pub(crate) handoffs: Option<PathBuf>,
}

/// The running processes. They end with this value, and with this process whatever ends it.
#[derive(Debug)]
pub(crate) struct Cluster {
    plan: ClusterPlan,
    stores: Vec<Process>,
    master: Option<Process>,
    directory: PathBuf,
    keep_directory: bool,
    keep_handoff: bool,
    /// What masters of this cluster have in common, if there will be more than one.
    succession: Option<Succession>,
    ready: MasterReady,
}

/// What one master leaves to the next.
#[derive(Debug)]
struct Succession {
    handoff: PathBuf,
    /// Stores and clients trust this certificate alone, so every master shows it.
    certificate: CertificateFiles,
}

/// What the ready file of the master says.
#[derive(Clone, Debug, Default, Deserialize)]
struct MasterReady {
    rpc: Vec<String>,
    metrics: String,
    cert_sha256: String,
}

impl Cluster {
    /// Starts the processes and waits until all of them serve.
    ///
    /// Must be called on the thread that stays as long as the process: the kernel ends the children
    /// with the thread that started them. The same holds for [`Cluster::restart_master`].
    ///
    /// # Errors
    /// Which process does not start, and where its log is.
    pub(crate) async fn start(plan: &ClusterPlan) -> Result<Cluster, CommandError> {
        let (directory, keep_directory) = match &plan.logs {
            Some(directory) => (directory.clone(), true),
            None => (std::env::temp_dir().join(name_of_its_own()), false),
        };
        make_directory(&directory)?;
        let mut cluster = Cluster {
            plan: plan.clone(),
            stores: Vec::new(),
            master: None,
            directory,
            keep_directory,
            keep_handoff: false,
            succession: None,
            ready: MasterReady::default(),
        };
        let started = cluster.start_processes().await;
        if started.is_err() {
            // Whoever reads the error will want to read the logs.
            cluster.keep_directory = true;
        }
        started.map(|()| cluster)
    }

    /// The address of the master.
    pub(crate) fn address(&self) -> &str {
        self.ready.rpc.first().map_or("", String::as_str)
    }

    /// The address of the admin pages of the master; another one after each restart.
    pub(crate) fn metrics(&self) -> &str {
        &self.ready.metrics
    }

    /// The fingerprint of the master's certificate, in hexadecimal.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.ready.cert_sha256
    }

    /// Leaves everything there that tells what happened, and says where it is.
    pub(crate) fn keep_traces(&mut self) -> String {
        self.keep_directory = true;
        self.keep_handoff = true;
        let logs = format!("the logs of the processes are in {}", self.directory.display());
        match &self.succession {
            Some(Succession { handoff, .. }) => {
                format!("{logs}, the last handoff is in {}", handoff.display())
            }
            None => logs,
        }
    }

    /// Ends the master in an orderly way, so that it hands its index over, starts the next one at
    /// the same address, and waits until it serves.
    ///
    /// # Errors
    /// A master that does not end or does not start, and where its log is.
    pub(crate) async fn restart_master(&mut self) -> Result<(), CommandError> {
        if let Some(mut master) = self.master.take() {
            let ended = master.end_within(LEAVE_TIMEOUT).await;
            if !ended.is_some_and(|status| status.success()) {
                let state = ended.map_or("does not end".to_owned(), |it| format!("ended: {it}"));
                let text = format!("the master {state}; its log is {}", master.log().display());
                // Dropped with the cluster, which ends it.
                self.master = Some(master);
                return Err(CommandError::Failed(text));
            }
        }
        let former = self.ready.clone();
        self.start_master(&port_of(self.address())?).await?;
        if (&former.rpc, &former.cert_sha256) != (&self.ready.rpc, &self.ready.cert_sha256) {
            let text = format!("the next master is not the former one: {:?}", self.ready);
            return Err(CommandError::Failed(text));
        }
        Ok(())
    }

    /// Ends the processes in an orderly way, the stores first, and forcibly what takes too long.
    pub(crate) async fn stop(mut self) {
        let mut master: Vec<Process> = self.master.take().into_iter().collect();
        for group in [&mut self.stores, &mut master] {
            group.iter_mut().for_each(Process::terminate);
            let deadline = Instant::now() + STOP_TIMEOUT;
            while group.iter_mut().any(Process::runs) && Instant::now() < deadline {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    async fn start_processes(&mut self) -> Result<(), CommandError> {
        if self.plan.restarts {
            // Its own name also among kept logs: what another cluster left must not be restored.
            let place = self.plan.handoffs.as_ref().unwrap_or(&self.directory);
            let handoff = place.join(name_of_its_own());
            make_directory(&handoff)?;
            let certificate = CertificateFiles::make(&self.directory)?;
            self.succession = Some(Succession { handoff, certificate });
        }
        self.start_master("0").await?;
        for index in 1..=self.plan.stores {
            let name = format!("store-{index}");
            let mut command = process::command("store")?;
            command
                .args(["--master", self.address(), "--pin-sha256", self.fingerprint()])
                .args(["--memory", &self.plan.store_bytes.to_string(), "--name", &name])
                .args(["--address", "127.0.0.1", "--data-port", "0"]);
            let store = Process::spawn(command, Files::new(&self.directory, &name))?;
            self.stores.push(store);
        }
        for store in &mut self.stores {
            store.ready().await?;
        }
        Ok(())
    }

    async fn start_master(&mut self, port: &str) -> Result<(), CommandError> {
        let mut files = Files::new(&self.directory, "master");
        // A master goes on with the log of the former one.
        files.log_goes_on = !self.ready.rpc.is_empty();
        let master = Process::spawn(self.master_command(port)?, files)?;
        let content = self.master.insert(master).ready().await?;
        self.ready = serde_json::from_slice(&content)
            .map_err(|error| CommandError::failed("the ready file of the master", error))?;
        Ok(())
    }

    fn master_command(&self, port: &str) -> Result<Command, CommandError> {
        let mut command = process::command("master")?;
        command
            .args(["--rpc-address", "127.0.0.1", "--rpc-port", port])
            .args(["--metrics-address", "127.0.0.1", "--metrics-port", "0"])
            .args(["--default-kv-lease-ttl", &format!("{}ms", self.plan.lease_ttl.as_millis())])
            .args(["--eviction-high-watermark-ratio", &self.plan.watermark_ratio.to_string()]);
        if let Some(shards) = self.plan.shards {
            command.args(["--shards", &shards.to_string()]);
        }
        match &self.succession {
            None => command.arg("--dev"),
            Some(Succession { handoff, certificate }) => command
                .arg("--handoff-dir")
                .arg(handoff)
                .arg("--tls-cert")
                .arg(&certificate.certificate)
                .arg("--tls-key")
                .arg(&certificate.key),
        };
        Ok(command)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // They must have ended before what they use is removed.
        self.stores.clear();
        self.master = None;
        // What is left in temporary directories does no harm.
        if let Some(succession) = self.succession.as_ref().filter(|_| !self.keep_handoff) {
            let _ = fs::remove_dir_all(&succession.handoff);
        }
        if !self.keep_directory {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn make_directory(path: &Path) -> Result<(), CommandError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| CommandError::failed(path.display(), error))
}

/// So that several demos do not meet.
fn name_of_its_own() -> String {
    let suffix: u64 = StdRng::from_os_rng().random();
    format!("mooring-demo-{suffix:016x}")
}

fn port_of(address: &str) -> Result<String, CommandError> {
    match address.rsplit_once(':') {
        Some((_, port)) => Ok(port.to_owned()),
        None => Err(CommandError::Failed(format!("the master has no port: {address:?}"))),
    }
}

/// How often to look whether a process is as far.
const POLL: Duration = Duration::from_millis(10);

/// How long the stores, and then the master, may take to leave.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// How long a master that hands its index over may take to leave: longer than its own deadline.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);
