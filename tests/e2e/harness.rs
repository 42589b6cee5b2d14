//! Starts processes of the binary, waits until they serve, and ends them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The binary under test.
pub(crate) const MOORING: &str = env!("CARGO_BIN_EXE_mooring");

/// A command of the binary that sees no settings of whoever runs the tests.
pub(crate) fn mooring(arguments: &[&str]) -> Command {
    called(Path::new(MOORING), arguments)
}

/// The same, with the binary at another place or under another name.
pub(crate) fn called(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_setting = ["MOORING_", "OTEL_"].iter().any(|prefix| text.starts_with(prefix));
        if is_setting || ["RUST_LOG", "TRACEPARENT"].contains(&&*text) {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    mooring(arguments).output().unwrap()
}

/// A process of the binary. It is killed when it is dropped, and its log must then have no ERROR
/// line that was not expected.
pub(crate) struct Process {
    child: Child,
    directory: TempDir,
    expected_errors: Vec<String>,
}

impl Process {
    /// Starts a server with a ready file and a log of its own, and waits until it serves.
    pub(crate) fn serving(arguments: &[&str]) -> Process {
        Process::serving_as(Path::new(MOORING), arguments)
    }

    /// Starts a server, and does not wait.
    pub(crate) fn starting(arguments: &[&str]) -> Process {
        Process::starting_as(Path::new(MOORING), arguments)
    }

    /// Starts a server under another name and waits until it serves.
    pub(crate) fn serving_as(program: &Path, arguments: &[&str]) -> Process {
        let mut process = Process::starting_as(program, arguments);
        let ready = process.ready_path();
        process.wait_until("it serves", || ready.exists());
        process
    }

    /// Starts a server with these variables in its environment, and does not wait.
    pub(crate) fn starting_with(arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        let mut command = mooring(arguments);
        command.envs(variables.iter().copied());
        Process::spawn(command)
    }

    fn starting_as(program: &Path, arguments: &[&str]) -> Process {
        Process::spawn(called(program, arguments))
    }

    /// Starts a server by a command of the caller's own, and does not wait.
    pub(crate) fn spawn(command: Command) -> Process {
        let directory = tempfile::tempdir().unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        Process::logging_to(log.into(), command, directory)
    }

    /// Starts a server whose log is for the caller to read, and does not wait.
    pub(crate) fn starting_with_log(arguments: &[&str], log: Stdio) -> Process {
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join("log")).unwrap();
        Process::logging_to(log, mooring(arguments), directory)
    }

    fn logging_to(log: Stdio, mut command: Command, directory: TempDir) -> Process {
        // A test that looks at the file itself names its own.
        if !command.get_args().any(|argument| argument == "--ready-file") {
            command.arg("--ready-file").arg(directory.path().join("ready.json"));
        }
        let child = command
            .args(["--log-format", "json"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Process { child, directory, expected_errors: Vec::new() }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file that exists while the process serves.
    pub(crate) fn ready_path(&self) -> PathBuf {
        self.directory.path().join("ready.json")
    }

    /// What the ready file says.
    pub(crate) fn ready(&self) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(self.ready_path()).unwrap()).unwrap()
    }

    /// What the process has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap()
    }

    /// The file that it logs to.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// ERROR lines with this text are part of the test.
    pub(crate) fn expect_error(&mut self, text: &str) {
        self.expected_errors.push(text.to_owned());
    }

    /// Sends a signal, as `libc::SIGTERM`.
    pub(crate) fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: `kill` touches no memory; the child was not waited for, so the id is its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Waits for the end of the process.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the process does not end; its log:\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until something outside of this process holds.
    pub(crate) fn wait_until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the process ended with {status} before {what}; its log:\n{}", self.log());
            }
            assert!(Instant::now() < until, "waiting until {what}; the log:\n{}", self.log());
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of process {}\n{}", self.child.id(), self.log());
            return;
        }
        for line in self.log().lines().filter(|line| line.contains("\"level\":\"ERROR\"")) {
            let expected = self.expected_errors.iter().any(|text| line.contains(text));
            assert!(expected, "an unexpected line in the log: {line}");
        }
    }
}

/// A master with a certificate of its own, on free ports.
pub(crate) struct Master {
    /// The process.
    pub(crate) process: Process,
    rpc: SocketAddr,
    metrics: SocketAddr,
    cert_sha256: String,
}

impl Master {
    /// Starts one and waits until it serves. More flags may follow.
    pub(crate) fn start(flags: &[&str]) -> Master {
        Master::start_with(&[&["--dev"], flags].concat())
    }

    /// Starts one with exactly these flags besides its ports.
    pub(crate) fn start_with(flags: &[&str]) -> Master {
        let ports = ["master", "--rpc-port", "0", "--metrics-port", "0"];
        Master::of(Process::serving(&[&ports, flags].concat()))
    }

    /// One that serves already.
    pub(crate) fn of(process: Process) -> Master {
        let ready = process.ready();
        let address = |value: &serde_json::Value| value.as_str().unwrap().parse().unwrap();
        Master {
            rpc: address(&ready["rpc"][0]),
            metrics: address(&ready["metrics"]),
            cert_sha256: ready["cert_sha256"].as_str().unwrap().to_owned(),
            process,
        }
    }

    /// Where clients reach it.
    pub(crate) fn rpc(&self) -> SocketAddr {
        self.rpc
    }

    /// Where its admin pages are.
    pub(crate) fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// The SHA-256 of its certificate, in hexadecimal.
    pub(crate) fn cert_sha256(&self) -> &str {
        &self.cert_sha256
    }

    /// The flags with which client commands reach it.
    pub(crate) fn client_flags(&self) -> Vec<String> {
        let pin = ["--dev".to_owned(), "--pin-sha256".to_owned(), self.cert_sha256.clone()];
        [vec!["--master".to_owned(), self.rpc.to_string()], pin.to_vec()].concat()
    }

    /// Status and body of an admin page.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        page_at(self.metrics, path)
    }

    /// Waits until an admin page reads so.
    pub(crate) fn wait_for_page(&self, path: &str, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let page = self.page(path);
            if page == (200, text.to_owned()) {
                return;
            }
            assert!(Instant::now() < until, "{path} still reads {page:?}, not {text}");
            std::thread::sleep(PAUSE);
        }
    }

    /// A connection to the admin pages on which nothing was sent yet.
    pub(crate) fn admin_connection(&self) -> TcpStream {
        let stream = TcpStream::connect(self.metrics).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (status, page) = self.page("/metrics");
        assert_eq!(status, 200, "{page}");
        let line = page.lines().find(|line| line.split(' ').next() == Some(name));
        let value =
            line.unwrap_or_else(|| panic!("no metric {name} in\n{page}")).rsplit(' ').next();
        value.unwrap().parse().unwrap()
    }

    /// Waits until a metric is above a value.
    pub(crate) fn wait_for_metric_above(&self, name: &str, value: f64) {
        let until = Instant::now() + PATIENCE;
        while self.metric(name) <= value {
            assert!(Instant::now() < until, "{name} is {}", self.metric(name));
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until a metric has a value.
    pub(crate) fn wait_for_metric(&self, name: &str, value: f64) {
        let until = Instant::now() + PATIENCE;
        while self.metric(name) != value {
            assert!(Instant::now() < until, "{name} is {} and not {value}", self.metric(name));
            std::thread::sleep(PAUSE);
        }
    }
}

/// Status and body of an admin page of a process that listens there.
pub(crate) fn page_at(address: SocketAddr, path: &str) -> (u16, String) {
    let (status, body) = http(address, "GET", path, b"");
    (status, String::from_utf8(body).unwrap())
}

/// Status and body of the answer to an HTTP request.
pub(crate) fn http(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: mooring\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // It may be refused before all of it was taken.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), answer[end + 4..].to_vec())
}

/// A TCP port that nobody listens on now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Longer than anything takes that works, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at something that another process will do.
const PAUSE: Duration = Duration::from_millis(10);
