//! A real engine, an image in it, and names of which nothing is left when the test has ended.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bollard::query_parameters::{InspectContainerOptions, LogsOptionsBuilder};
use cellblock::{ContainerSummary, Docker, Engine, Execution, Session};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::controller::{self, Ended};

/// No test may take longer than this, whatever hangs.
const PATIENCE: Duration = Duration::from_secs(90);
/// What nothing announces is there by then, on a busy machine too.
const CONDITION: Duration = Duration::from_secs(30);

/// An engine, and a prefix for the names of this test's sessions.
pub(crate) struct Lab {
    pub(crate) docker: Docker,
    pub(crate) image: String,
    prefix: String,
}

/// Runs a test in a lab of its own, or says why it cannot.
pub(crate) async fn on(test: impl AsyncFnOnce(&Lab)) {
    on_for(PATIENCE, test).await;
}

/// Runs one that may take this long.
pub(crate) async fn on_for(patience: Duration, test: impl AsyncFnOnce(&Lab)) {
    let Some(lab) = Lab::open().await else { return };
    let bounded = tokio::time::timeout(patience, Box::pin(test(&lab)));
    let outcome = AssertUnwindSafe(bounded).catch_unwind().await;
    lab.clean_up().await;
    match outcome {
        Err(panic) => resume_unwind(panic),
        Ok(result) => assert!(result.is_ok(), "the test did not end within {patience:?}"),
    }
}

impl Lab {
    async fn open() -> Option<Self> {
        let docker = match Docker::connect().await {
            Ok(docker) => docker,
            Err(error) => return skip(&format!("no engine: {error}")),
        };
        let chosen = std::env::var("CELLBLOCK_TEST_IMAGE").ok();
        for image in chosen.as_deref().map_or(vec!["cellblock:base", "cellblock:data"], |image| vec![image]) {
            if docker.image(image).await.is_ok_and(|found| found.is_some()) {
                return Some(Self { docker, image: image.to_owned(), prefix: prefix() });
            }
        }
        skip("no kernel image, and CELLBLOCK_TEST_IMAGE names no other")
    }

    /// A session's name that no other test uses.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.prefix)
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.docker.clone())
    }

    /// A client of the engine for what is asked behind cellblock's back.
    pub(crate) fn bollard(&self) -> bollard::Docker {
        bollard::Docker::connect_with_host(self.docker.address()).expect("a second client")
    }

    /// Starts a detached session by the command, and returns its name.
    pub(crate) fn start<const N: usize>(&self, what: &str, args: [&str; N]) -> String {
        let name = self.name(what);
        let fixed = ["session", "start", &name, "--image", &self.image, "--idle-timeout", "5m"];
        let given = args.iter().step_by(2);
        // What the test says itself replaces what is said here.
        let kept = if given.clone().any(|flag| *flag == "--idle-timeout") { &fixed[..5] } else { &fixed };
        let started = controller::run(kept.iter().chain(&args));
        assert_eq!((started.code, started.stdout.trim()), (Some(0), name.as_str()), "{}", started.stderr);
        name
    }

    pub(crate) async fn attach(&self, name: &str) -> Session {
        Session::attach(name).engine(self.engine()).await.expect("it can be held")
    }

    /// This user's containers, as the engine lists them.
    pub(crate) async fn containers(&self) -> Vec<ContainerSummary> {
        let uid = rustix::process::getuid().as_raw().to_string();
        self.docker.list(&[("cellblock.uid", &uid)]).await.expect("a list")
    }

    pub(crate) async fn container(&self, session: &str) -> Option<ContainerSummary> {
        let all = self.containers().await;
        all.into_iter().find(|one| one.labels.get("cellblock.session").is_some_and(|name| name == session))
    }

    /// All that the engine tells about a session's container.
    pub(crate) async fn inspect(&self, session: &str) -> String {
        let id = self.container(session).await.expect("its container").id;
        let inspected = self.bollard().inspect_container(&id.0, None::<InspectContainerOptions>).await;
        format!("{:?}", inspected.expect("its inspection"))
    }

    /// The kernel that runs in a session, as this machine sees it.
    pub(crate) async fn kernel(&self, session: &str) -> Kernel {
        let id = self.container(session).await.expect("its container").id;
        let init = self.docker.pid(&id).await.expect("the engine is there").expect("it runs");
        let keeper = child_of(&init.to_string()).expect("a keeper");
        Kernel(child_of(&keeper).expect("a kernel"))
    }

    /// What the container's own log holds.
    pub(crate) async fn log(&self, session: &str) -> String {
        let id = self.container(session).await.expect("its container").id;
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).build();
        let log: Vec<_> = self.bollard().logs(&id.0, Some(options)).collect().await;
        log.into_iter().map(|line| line.expect("a line").to_string()).collect()
    }

    /// Opens a gate that a cell waits at.
    pub(crate) async fn open_gate(&self, session: &str, name: &str) {
        assert!(self.succeeds(session, &["/bin/touch", &format!("/workspace/{name}")]).await, "{name}");
    }

    /// Whether a program in the session's container does what it is to do.
    pub(crate) async fn succeeds(&self, session: &str, argv: &[&str]) -> bool {
        let container = self.container(session).await.expect("its container");
        let mut exec = self.docker.exec(&container.id, argv).await.expect("it runs");
        exec.stdin.shutdown().await.expect("its stdin ends");
        exec.stdout.read_to_end(&mut Vec::new()).await.expect("its stdout ends");
        exec.end.await.expect("it ends").code == Some(0)
    }

    async fn clean_up(&self) {
        for one in self.containers().await {
            if let Some(name) = one.labels.get("cellblock.session").filter(|name| name.starts_with(&self.prefix)) {
                let _ = Session::remove(&self.docker, name).await;
            }
        }
    }
}

/// A process of this machine, by its pid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel(String);

impl Kernel {
    pub(crate) async fn until_gone(&self) {
        until("the kernel is gone", async || !Path::new("/proc").join(&self.0).exists()).await;
    }
}

fn child_of(pid: &str) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("life-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Says that a test was skipped, and fails it if it must not be.
pub(crate) fn skip<T>(why: &str) -> Option<T> {
    const REQUIRED: &str = "CELLBLOCK_REQUIRE_ENGINE";
    assert!(std::env::var_os(REQUIRED).is_none(), "{why}, and {REQUIRED} is set");
    say(&format!("skipped: {why}"));
    None
}

#[expect(clippy::print_stderr, reason = "the reader of the test's output must know")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// Waits for what nothing announces.
pub(crate) async fn until(what: impl fmt::Display, holds: impl AsyncFnMut() -> bool) {
    within(CONDITION, what, holds).await;
}

/// Waits for what must be so by then.
pub(crate) async fn within(limit: Duration, what: impl fmt::Display, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where this user's sessions have their sockets, and their long texts.
pub(crate) fn runtime_directory() -> PathBuf {
    let uid = rustix::process::getuid();
    if uid.is_root() {
        return PathBuf::from("/run/cellblock");
    }
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
        || PathBuf::from(format!("/tmp/cellblock-{}", uid.as_raw())),
        |path| PathBuf::from(path).join("cellblock"),
    )
}

pub(crate) fn spill_directory() -> PathBuf {
    let place = runtime_directory().display().to_string().trim_start_matches('/').replace('/', "-");
    PathBuf::from(format!("/var/tmp/cellblock-{}", rustix::process::getuid().as_raw())).join(place)
}

pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// Questions that the tests ask all the time. A failure of the call itself fails the test.
pub(crate) trait Ask {
    /// Runs a cell whatever comes of it.
    async fn cell(&self, code: impl Into<String>) -> Execution;
    /// Evaluates an expression and returns the text of its value.
    async fn value(&self, expression: &str) -> String;
    /// The result of the cell that an earlier controller left.
    async fn left(&self) -> Execution;
}

impl Ask for Session {
    async fn cell(&self, code: impl Into<String>) -> Execution {
        self.run(code).await.expect("the call goes well")
    }

    async fn value(&self, expression: &str) -> String {
        let execution = self.cell(expression).await;
        assert!(execution.is_ok(), "{}\n{}", execution.status, execution.stderr);
        execution.text().expect("a value").to_owned()
    }

    async fn left(&self) -> Execution {
        self.recovered().await.expect("the session goes on").expect("a result that nobody has had")
    }
}

/// What a command printed as the result of a cell, as data.
pub(crate) fn as_data(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}
