//! An engine without containers: the bridge and its kernel as plain processes of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use cellblock::{ContainerId, ContainerSpec, ContainerSummary, Engine, Error, Exec, ExecEnd, Exit, Workspace};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWrite};
use tokio::process::ChildStdin;
use tokio::sync::watch;

const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kernel-image/bridge");
const DIRECTORIES: &str = "cellblock-test-process-";
const STDERR_KEPT: usize = 64 * 1024;

/// Runs `bridge init` where a container engine would run a container.
///
/// What is kept in `/workspace` is kept in a directory that goes with the process.
#[derive(Debug)]
pub(crate) struct ProcessEngine {
    python: PathBuf,
    base: PathBuf,
    made: AtomicU32,
    processes: Arc<Mutex<BTreeMap<String, Process>>>,
}

#[derive(Debug)]
struct Process {
    summary: ContainerSummary,
    args: Vec<String>,
    env: Vec<(String, String)>,
    host_directory: Option<PathBuf>,
    directory: PathBuf,
    pid: Option<Pid>,
    /// What was started in it besides, as in a container, with which it ends.
    execs: Vec<Pid>,
    exit: watch::Sender<Option<Exit>>,
}

impl ProcessEngine {
    /// With this Python, which must have ipykernel.
    pub(crate) fn new(python: impl Into<PathBuf>) -> Self {
        sweep();
        let base = PathBuf::from(format!("/tmp/{DIRECTORIES}{}-{}", std::process::id(), number()));
        fs::create_dir(&base).expect("a directory for the processes");
        Self { python: python.into(), base, made: AtomicU32::new(0), processes: Arc::default() }
    }

    /// Ends everything that still runs and removes every trace.
    pub(crate) fn clean_up(&self) {
        for process in self.processes().values() {
            process.kill();
        }
        let _ = fs::remove_dir_all(&self.base);
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn python(&self, id: &str, flags: &str, command: &str) -> Result<Command, Error> {
        let processes = self.processes();
        let process = processes.get(id).ok_or_else(|| gone(id))?;
        let mut python = Command::new(&self.python);
        python
            .args([flags, BRIDGE, command])
            .current_dir(process.directory.join("workspace"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", process.directory.join("home"))
            .env("IPYTHONDIR", process.directory.join("home/ipython"))
            .envs(process.env.iter().cloned());
        if matches!(command, "init" | "relay") {
            python.arg("--runtime-dir").arg(process.directory.join("run"));
        }
        if matches!(command, "init" | "files") {
            let nothing = process.directory.join("host");
            python.arg("--host-dir").arg(process.host_directory.as_ref().unwrap_or(&nothing));
        }
        if command == "init" {
            python.args(process.args.iter().skip(1));
        }
        Ok(python)
    }

    fn launch(&self, id: &str) -> Result<(), Error> {
        let mut child = self
            .python(id, "-I", "init")?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Error::engine("cannot start the bridge", error))?;
        let mut processes = self.processes();
        let process = processes.get_mut(id).ok_or_else(|| gone(id))?;
        process.pid = Some(Pid::from_child(&child));
        process.summary.state = "running".to_owned();
        let (exit, directory) = (process.exit.clone(), process.directory.clone());
        // A thread, since no runtime of the caller need live as long as the process.
        std::thread::spawn(move || {
            let status = child.wait();
            let _ = fs::remove_dir_all(directory);
            exit.send_replace(Some(Exit::new(status.ok().and_then(exit_code))));
        });
        Ok(())
    }
}

impl Process {
    fn kill(&self) {
        let Some(pid) = self.pid.filter(|_| self.exit.borrow().is_none()) else { return };
        for root in self.execs.iter().copied().chain([pid]) {
            for pid in descendants(root).into_iter().chain([root]) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Engine for ProcessEngine {
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>> {
        async {
            let mut processes = self.processes();
            let alive = |process: &Process| process.exit.borrow().is_none();
            if processes.values().any(|process| process.summary.name == spec.name && alive(process)) {
                return Err(Error::name_taken(&spec.name));
            }
            let id = format!("process-{}-{}", std::process::id(), self.made.fetch_add(1, Ordering::Relaxed));
            let directory = self.base.join(&id);
            for part in ["run", "workspace", "host", "home/ipython"] {
                fs::create_dir_all(directory.join(part))
                    .map_err(|error| Error::engine("cannot make a directory", error))?;
            }
            if let Workspace::Host(path) = &spec.workspace {
                let path = spec.bind_directory.as_ref().unwrap_or(path);
                let workspace = directory.join("workspace");
                fs::remove_dir(&workspace)
                    .and_then(|()| std::os::unix::fs::symlink(path, workspace))
                    .map_err(|error| Error::engine("cannot mount a directory", error))?;
            }
            let mut summary = ContainerSummary::new(ContainerId(id.clone()), &spec.name, &spec.image, "created");
            summary.labels = spec.labels.iter().chain(&spec.annotations).map(|(k, v)| (k.clone(), v.clone())).collect();
            let process = Process {
                summary,
                args: spec.args.clone(),
                env: spec.env.clone(),
                host_directory: spec.host_directory.clone(),
                directory,
                pid: None,
                execs: Vec::new(),
                exit: watch::Sender::new(None),
            };
            processes.insert(id.clone(), process);
            Ok(ContainerId(id))
        }
        .boxed()
    }

    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        async { self.launch(&id.0) }.boxed()
    }

    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>> {
        async {
            let exit = self.processes().get(&id.0).map(|process| process.exit.subscribe());
            let Some(mut exit) = exit else { return Ok(Exit::new(None)) };
            let exit = exit.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone());
            Ok(exit.unwrap_or(Exit::new(None)))
        }
        .boxed()
    }

    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>> {
        async move {
            let ["/opt/cellblock/bin/bridge", command, args @ ..] = argv else {
                panic!("sessions run nothing but the bridge in containers, and not {argv:?}");
            };
            let mut python = self.python(&id.0, "-IS", command)?;
            python.args(args);
            let mut child = tokio::process::Command::from(python)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| Error::engine("cannot start the bridge's program", error))?;
            let (Some(stdin), Some(stdout), Some(mut stderr)) =
                (child.stdin.take(), child.stdout.take(), child.stderr.take())
            else {
                return Err(Error::engine("cannot start the bridge's program", "it has no pipes"));
            };
            let started = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
            if let Some((process, pid)) = self.processes().get_mut(&id.0).zip(started) {
                process.execs.push(pid);
            }
            let (engine, id) = (Arc::clone(&self.processes), id.0.clone());
            let end = tokio::spawn(async move {
                let mut text = Vec::new();
                let read = stderr.read_to_end(&mut text).await;
                text.drain(..text.len().saturating_sub(STDERR_KEPT));
                let status = read.and(child.wait().await);
                // Its number may be another's from here on.
                if let Some(process) = engine.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&id) {
                    process.execs.retain(|pid| Some(*pid) != started);
                }
                status.map(|status| ExecEnd::new(exit_code(status), text))
            });
            let failed = |error: Box<dyn std::error::Error + Send + Sync>| Error::engine("cannot wait", error);
            let end =
                async move { end.await.map_err(|error| failed(error.into()))?.map_err(|error| failed(error.into())) };
            Ok(Exec::new(Closing(Some(stdin)), stdout, end))
        }
        .boxed()
    }

    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        async {
            if let Some(process) = self.processes().get(&id.0) {
                process.kill();
            }
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        async {
            let (pid, exit) = match self.processes().get(&id.0) {
                Some(process) => (process.pid, process.exit.clone()),
                None => return Ok(()),
            };
            self.kill(id).await?;
            if pid.is_none() {
                exit.send_replace(Some(Exit::new(None)));
            }
            self.wait(id).await?;
            if let Some(process) = self.processes().remove(&id.0) {
                let _ = fs::remove_dir_all(process.directory);
            }
            Ok(())
        }
        .boxed()
    }

    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>> {
        async {
            let carries = |process: &&Process| {
                let has =
                    |(name, value): &(&str, &str)| process.summary.labels.get(*name).is_some_and(|is| is == value);
                // As with Docker's auto-removal, what has ended is not there any more.
                process.exit.borrow().is_none() && labels.iter().all(has)
            };
            Ok(self.processes().values().filter(carries).map(|process| process.summary.clone()).collect())
        }
        .boxed()
    }

    fn pid<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        async {
            let pid = self.processes().get(&id.0).and_then(|process| process.pid);
            Ok(pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()))
        }
        .boxed()
    }

    fn mounts_host_directories(&self) -> bool {
        true
    }
}

/// A pipe's end that a shutdown closes.
struct Closing(Option<ChildStdin>);

impl AsyncWrite for Closing {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(stdin) => Pin::new(stdin).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().map_or(Poll::Ready(Ok(())), |stdin| Pin::new(stdin).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

/// As a container engine tells it.
fn exit_code(status: ExitStatus) -> Option<i64> {
    status.code().or(status.signal().map(|signal| 128 + signal)).map(i64::from)
}

fn gone(id: &str) -> Error {
    Error::engine("cannot use the process", format!("there is no process {id}"))
}

fn number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// All processes that this one started, directly or not.
pub(crate) fn descendants(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for thread in threads {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw));
        for child in children {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

/// Removes what tests that were killed have left.
fn sweep() {
    for entry in fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(DIRECTORIES)?.split('-').next()?.parse().ok());
        if owner.and_then(Pid::from_raw).is_some_and(|owner| test_kill_process(owner).is_err()) {
            remove_with_processes(&entry.path());
        }
    }
}

/// A bridge whose test is gone is known by its directory, which is on its command line.
fn remove_with_processes(directory: &Path) {
    let mark = directory.to_string_lossy().into_owned();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| String::from_utf8_lossy(&command).contains(&mark)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let _ = fs::remove_dir_all(directory);
}
