//! A controller that is killed at any step of a session's life leaves nothing behind, and takes nothing of others with it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cellblock::{ContainerId, ContainerSummary, Session};
use rustix::fs::{FlockOperation, flock};

use crate::controller::{self, Controller, cellblock};
use crate::lab::{Ask as _, Lab, on, runtime_directory, spill_directory, within};

/// An owned session's container, and all else of it, is gone this long after its controller at the latest.
const LEASE: Duration = Duration::from_secs(10);
/// More than is kept in memory, so that there is a file with it, and a line that says that it runs.
const LONG: &str = "print('x' * 3_000_000)\nprint('\\nbegun', flush=True)";

/// What a controller has on this machine, by the lock that its process holds and the label that its container has.
#[derive(Debug, Clone)]
struct Belongings {
    directory: PathBuf,
    spill: PathBuf,
    container: Option<ContainerId>,
}

impl Belongings {
    /// None while the process has not begun.
    fn of(pid: u32) -> Option<Self> {
        let lock = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().find_map(|descriptor| {
            let path = std::fs::read_link(descriptor.path()).ok()?;
            (path.starts_with(runtime_directory()) && path.ends_with("lock")).then_some(path)
        })?;
        let directory = lock.parent()?.to_owned();
        let spill = spill_directory().join(directory.file_name()?);
        Some(Self { directory, spill, container: None })
    }

    async fn container(&self, lab: &Lab) -> Option<ContainerSummary> {
        let id = self.directory.file_name()?.to_str()?;
        lab.containers().await.into_iter().find(|one| one.labels.get("cellblock.directory").is_some_and(|is| is == id))
    }

    async fn is_gone(&self, lab: &Lab) -> bool {
        !self.directory.exists() && !self.spill.exists() && self.container(lab).await.is_none()
    }

    fn are_there(&self) -> bool {
        self.directory.exists() && self.spill.exists()
    }
}

/// Controllers that live on, with one session of each kind, all with spill files.
struct Living {
    owned: Session,
    held: Session,
    /// Detached, and nobody is there.
    free: String,
    directories: Vec<PathBuf>,
}

impl Living {
    async fn start(lab: &Lab) -> Self {
        let builder = |what: &str| Session::builder().engine(lab.engine()).image(&lab.image).name(lab.name(what));
        let owned = builder("owned").start().await.expect("a session");
        let held = builder("held").detached(true).start().await.expect("a session");
        let left = builder("free").detached(true).start().await.expect("a session");
        let mut directories = Vec::new();
        for session in [&owned, &held, &left] {
            assert!(session.cell(format!("x = 41\n{LONG}")).await.is_ok());
            let labels = lab.container(session.name()).await.expect("its container").labels;
            directories.push(runtime_directory().join(&labels["cellblock.directory"]));
        }
        left.detach().await.expect("it lets go");
        Self { owned, held, free: left.name().to_owned(), directories }
    }

    async fn is_untouched(&self, lab: &Lab) {
        for directory in &self.directories {
            let spill = spill_directory().join(directory.file_name().expect("its name"));
            assert!(directory.join("lock").exists() && files(&spill) > 0, "{}", directory.display());
        }
        let free = lab.attach(&self.free).await;
        for session in [&self.owned, &self.held, &free] {
            assert_eq!(session.value("x + 1").await, "42");
        }
        free.detach().await.expect("it lets go");
    }
}

fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).into_iter().flatten().count()
}

/// When a controller is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It has a directory of its own, and most likely no container.
    Directory,
    Created,
    Running,
    /// Its kernel is being started: the sockets of the first generation are there.
    Connecting,
    Output,
    /// Its container is about to go.
    Stopping,
}

/// Starts a command that owns a session, and kills it at that step. Returns what it had.
async fn kill_at(lab: &Lab, step: Step) -> Belongings {
    let code = format!("{LONG}{}", if step == Step::Stopping { "" } else { "\nimport time\ntime.sleep(60)" });
    let mut controller = Controller::start(["run", "--image", &lab.image, "-c", &code]);
    let end = Instant::now() + Duration::from_secs(30);
    let mut found = None;
    if matches!(step, Step::Output | Step::Stopping) {
        controller.until("begun");
    }
    loop {
        assert!(Instant::now() < end, "{step:?} was never seen");
        found = found.or_else(|| Belongings::of(controller.pid()));
        let Some(found) = &mut found else {
            // Only a look at once sees the first step.
            std::thread::yield_now();
            continue;
        };
        let container = if step == Step::Directory { None } else { found.container(lab).await };
        found.container = container.as_ref().map(|one| one.id.clone()).or(found.container.take());
        let state = container.as_ref().map(|one| one.state.as_str());
        let reached = match step {
            Step::Directory => true,
            // One that was too short to be seen counts.
            Step::Created => state.is_some(),
            Step::Running => state == Some("running"),
            Step::Connecting => {
                let directory = std::fs::read_dir(&found.directory).into_iter().flatten().flatten();
                directory.into_iter().any(|entry| !["in", "lock"].contains(&entry.file_name().to_str().unwrap_or("in")))
            }
            Step::Output => found.are_there() && state.is_some(),
            Step::Stopping => state != Some("running"),
        };
        if reached {
            let found = found.clone();
            controller.kill();
            return found;
        }
    }
}

async fn leaves_nothing(lab: &Lab, steps: &[Step]) {
    let living = Living::start(lab).await;
    for &step in steps {
        let dead = kill_at(lab, step).await;
        let killed = Instant::now();
        // A next start sweeps by itself; `prune` does at once.
        let pruned = controller::run(["prune"]);
        assert_eq!(pruned.code, Some(0), "{}", pruned.stderr);
        within(LEASE, format!("what was left at {step:?} is gone"), async || dead.is_gone(lab).await).await;
        assert!(killed.elapsed() < LEASE, "{step:?}: {:?}", killed.elapsed());
        living.is_untouched(lab).await;
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_start_that_was_killed() {
    on(async |lab| leaves_nothing(lab, &[Step::Directory, Step::Created, Step::Running, Step::Connecting]).await).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_run_or_stop_that_was_killed() {
    on(async |lab| leaves_nothing(lab, &[Step::Output, Step::Stopping]).await).await;
}

#[tokio::test]
async fn the_next_start_removes_what_a_killed_controller_left() {
    on(async |lab| {
        let dead = kill_at(lab, Step::Output).await;
        let next = controller::run(["run", "--image", &lab.image, "-c", "1 + 1"]);
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "2\n"), "{}", next.stderr);
        assert!(dead.is_gone(lab).await, "{dead:?}");
    })
    .await;
}

/// What is left by a process that was killed while it made its directory, or removed it: nothing there says whose it is.
#[tokio::test]
async fn a_directory_that_says_nobodys_name_is_removed_unless_it_is_being_made() {
    on(async |lab| {
        // It makes the place, should this be the first test that runs here.
        assert_eq!(controller::run(["run", "--image", &lab.image, "-c", "1"]).code, Some(0));
        let halves = ["made", "mounted", "locked", "emptied", "held"].map(|half| {
            let directory = runtime_directory().join(format!("half{half}{}", std::process::id()));
            std::fs::create_dir(&directory).expect("a new one");
            directory
        });
        let [_, mounted, locked, emptied, held] = &halves;
        for half in [mounted, locked, held] {
            std::fs::create_dir(half.join("in")).expect("a directory");
        }
        let locks = [locked, emptied, held].map(|half| File::create(half.join("lock")).expect("a file"));
        flock(&locks[2], FlockOperation::LockExclusive).expect("nobody else has it");
        // So does whoever makes one, from before it is there until it says whose it is.
        let making = File::open(runtime_directory()).expect("it is there");
        flock(&making, FlockOperation::LockShared).expect("nobody has it for long");
        assert_eq!(controller::run(["prune"]).code, Some(0));
        assert!(halves.iter().all(|half| half.exists()));
        drop(making);
        within(LEASE, "what was left half made is gone", async || {
            assert_eq!(controller::run(["prune"]).code, Some(0));
            halves.iter().filter(|half| half.exists()).eq([held])
        })
        .await;
        drop(locks);
        within(LEASE, "the last one is gone", async || {
            assert_eq!(controller::run(["prune"]).code, Some(0));
            !held.exists()
        })
        .await;
    })
    .await;
}

/// A container that no process of this machine may judge: it ends by its own lease, which tells so.
#[tokio::test]
async fn an_owned_container_ends_by_itself() {
    on(async |lab| {
        let code = format!("{LONG}\nwhile True: pass");
        let run = cellblock(["run", "--image", &lab.image, "-c", &code]);
        // In a pid namespace of its own nobody here can know whether it is gone, and so nobody sweeps.
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(run.get_program()).args(run.get_args());
        let mut controller = Controller::spawn(command);
        if !controller.prints("begun") {
            return crate::lab::say(&format!("skipped: no pid namespaces here: {}", controller.ended().stderr));
        }
        let child = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", controller.pid())).expect("/proc");
        let dead = Belongings::of(child.trim().parse().expect("a child")).expect("it holds a session");
        let container = dead.container(lab).await.expect("its container");
        let wait = tokio::spawn({
            let engine = lab.engine();
            let id = container.id.clone();
            async move { engine.wait(&id).await }
        });
        controller.kill();
        let killed = Instant::now();
        let pruned = controller::run(["prune"]);
        assert!(!pruned.stdout.contains(&container.labels["cellblock.session"]), "{}", pruned.stdout);
        let exit =
            tokio::time::timeout(LEASE, wait).await.expect("it ends in time").expect("no panic").expect("its end");
        assert_eq!(exit.code, Some(10), "it was orphaned");
        assert!(killed.elapsed() > Duration::from_secs(5), "by itself, not by its controller");
        within(LEASE, "its container is gone", async || dead.container(lab).await.is_none()).await;
        assert_eq!(controller::run(["prune"]).code, Some(0));
        assert!(dead.is_gone(lab).await, "{dead:?}");
    })
    .await;
}

/// A detached session whose start was killed belongs to nobody, runs nothing, and has its name.
#[tokio::test]
async fn a_detached_start_that_was_killed_gives_its_name_back() {
    on(async |lab| {
        let name = lab.name("half");
        for state in ["created", "running"] {
            let start = ["session", "start", &name, "--image", &lab.image];
            let controller = Controller::start(start);
            let begun = Instant::now();
            let container = loop {
                assert!(begun.elapsed() < Duration::from_secs(30), "it was never {state}");
                match lab.container(&name).await {
                    Some(one) if state == "created" || one.state == state => break one,
                    _ => {}
                }
            };
            let dead = Belongings::of(controller.pid());
            controller.kill();
            // What the dead one had asked of the engine may still be carried out.
            let taken = (state == "created").then(|| controller::run(start)).filter(|taken| taken.code != Some(0));
            if let Some(taken) = taken {
                assert_eq!(taken.code, Some(7), "{}", taken.stderr);
                let remedy = format!("`cellblock session stop {name}` ends it");
                assert!(taken.stderr.contains(&remedy), "{}", taken.stderr);
                let pruned = controller::run(["prune"]);
                // Another test's may have been first.
                let listed = pruned.stdout.lines().any(|line| line == name);
                assert!(listed || lab.container(&name).await.is_none(), "{}{}", pruned.stdout, pruned.stderr);
            } else {
                // It is a session like any other: its kernel is started by whoever comes first.
                let run = controller::run(["run", "--session", &name, "-c", "1 + 1"]);
                assert_eq!((run.code, run.stdout.as_str()), (Some(0), "2\n"), "{}", run.stderr);
                assert_eq!(controller::run(["session", "stop", &name]).code, Some(0));
            }
            assert!(lab.container(&name).await.is_none_or(|one| one.id != container.id));
            if let Some(dead) = dead {
                let what = format!("{} is gone", dead.directory.display());
                within(LEASE, what, async || !dead.directory.exists()).await;
            }
            let again = controller::run(start);
            assert_eq!(again.code, Some(0), "{}", again.stderr);
            assert_eq!(controller::run(["session", "stop", &name]).code, Some(0));
        }
    })
    .await;
}
