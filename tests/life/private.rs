//! A Docker daemon of a test's own, of which nothing is left however the test ends.
//!
//! A process of its own, the warden, starts the daemon, kills it when told to, and clears up after it once the test's process
//! has gone. What a warden that was killed itself has left is cleared by the next one.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bollard::query_parameters::ImportImageOptions;
use cellblock::Docker;
use futures_util::StreamExt as _;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, runtime_directory, say, until, within};

const DIRECTORY: &str = "CELLBLOCK_TEST_PRIVATE_ENGINE";
/// Short, for the sockets in it.
const PLACES: &str = "/var/tmp";
const PREFIX: &str = "cb-own-";
/// A daemon that is asked to ends its containers first.
const GRACE: Duration = Duration::from_secs(15);

/// A Docker daemon with all that it has in a directory of its own.
pub(crate) struct PrivateEngine {
    directory: PathBuf,
    warden: Child,
}

impl PrivateEngine {
    /// None, with a word about it, where there can be none.
    pub(crate) async fn start(live_restore: bool) -> Option<Self> {
        if !rustix::process::getuid().is_root() || Command::new("dockerd").arg("--version").output().is_err() {
            say("skipped: a private engine needs root and `dockerd`");
            return None;
        }
        let directory = Path::new(PLACES).join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        let log = File::create(directory.join("log")).expect("a log");
        let mut warden = Command::new(env::current_exe().expect("this program"));
        warden.args(["--exact", "private::warden", "--nocapture"]).env(DIRECTORY, &directory);
        // Whoever ends the test by its process group does not end this.
        warden.process_group(0);
        warden.stdin(Stdio::piped()).stdout(log.try_clone().expect("a file")).stderr(log);
        let warden = warden.spawn().expect("a warden");
        let mut engine = Self { directory, warden };
        engine.resume(live_restore).await.then_some(engine)
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}/docker.sock", self.directory.display())
    }

    /// Starts the daemon, again if it was killed. False, with a word about it, if it does not come up.
    pub(crate) async fn resume(&mut self, live_restore: bool) -> bool {
        self.tell(if live_restore { "start --live-restore" } else { "start" });
        let begun = Instant::now();
        while Docker::connect_to(&self.address()).await.is_err() {
            if begun.elapsed() > Duration::from_secs(20) {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                say(&format!("skipped: no private engine here: {}", log.lines().last().unwrap_or_default()));
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        true
    }

    pub(crate) async fn docker(&self) -> Docker {
        Docker::connect_to(&self.address()).await.expect("it is there")
    }

    /// Copies an image from the engine of the other tests.
    pub(crate) async fn load(&self, lab: &Lab) {
        let theirs = lab.bollard();
        let ours = bollard::Docker::connect_with_host(&self.address()).expect("a client");
        let image = theirs.export_image(&lab.image);
        let mut load = ours.import_image_stream(ImportImageOptions::default(), image, None);
        while let Some(progress) = load.next().await {
            progress.expect("it is loaded");
        }
    }

    /// Kills the daemon as nothing can be helped against. What runs in its containers goes on.
    pub(crate) async fn kill(&mut self) {
        self.tell("kill");
        until("it is killed", async || Docker::connect_to(&self.address()).await.is_err()).await;
    }

    fn tell(&mut self, what: &str) {
        let stdin = self.warden.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{what}").expect("the warden listens");
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        drop(self.warden.stdin.take());
        let _ = self.warden.wait();
    }
}

/// The warden, which does what its stdin says until that ends.
#[test]
fn warden() {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let lock = File::create(directory.join("lock")).expect("a lock");
    flock(&lock, FlockOperation::LockExclusive).expect("nobody else has it");
    clear_what_is_left();
    let mut daemon: Option<Child> = None;
    for line in std::io::stdin().lines() {
        match line.expect("text").split_once("start") {
            Some((_, flag)) => daemon = Some(start_daemon(&directory, flag.trim())),
            None => {
                let mut daemon = daemon.take().expect("it runs");
                daemon.kill().expect("it is killed");
                daemon.wait().expect("it ends");
            }
        }
    }
    if let Some(mut daemon) = daemon {
        let pid = Pid::from_child(&daemon);
        let _ = kill_process(pid, Signal::TERM);
        let asked = Instant::now();
        while daemon.try_wait().expect("its end").is_none() && asked.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = (daemon.kill(), daemon.wait());
    }
    clear(&directory);
}

fn start_daemon(directory: &Path, flag: &str) -> Child {
    let path = |name: &str| directory.join(name).display().to_string();
    fs::write(path("config"), "{}").expect("a configuration");
    // A daemon takes whatever has these pids now for its own.
    let _ = (fs::remove_file(path("pid")), fs::remove_file(path("exec/containerd/containerd.pid")));
    let namespace = namespace(directory);
    // In a network of its own, for it takes the bridge of any other daemon away.
    let mut command = Command::new("unshare");
    command
        .args(["--net", "dockerd", "--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"])
        .args(["--data-root", &path("data"), "--exec-root", &path("exec"), "--pidfile", &path("pid")])
        .args(["--host", &format!("unix://{}", path("docker.sock")), "--config-file", &path("config")])
        .args(["--containerd-namespace", &namespace])
        .args(["--containerd-plugins-namespace", &format!("{namespace}-plugins")])
        .args(Some(flag).filter(|flag| !flag.is_empty()));
    command.stdin(Stdio::null()).spawn().expect("`unshare`")
}

/// Of its containers, where the machine's containerd has them.
fn namespace(directory: &Path) -> String {
    directory.file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
}

/// Clears up after those whose wardens are gone.
fn clear_what_is_left() {
    for place in fs::read_dir(PLACES).expect("it is there").flatten().map(|entry| entry.path()) {
        let is_one = place.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        let lock = File::open(place.join("lock"));
        if is_one && lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            clear(&place);
        }
    }
}

/// Ends what a daemon that is gone has left running, and removes all that it had.
fn clear(directory: &Path) {
    let left = Instant::now();
    loop {
        let keepers = processes_of(directory);
        for keeper in &keepers {
            // The container's own, which ends all in it, and then what kept it.
            for pid in children_of(*keeper).into_iter().chain([*keeper]) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // What it left mounted is not the tests' to remove.
        unmount_below(directory);
        if keepers.is_empty() && fs::remove_dir_all(directory).is_ok() {
            break;
        }
        if left.elapsed() > GRACE {
            return say(&format!("not removed: {}", directory.display()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // No engine will ever be asked again whether its sessions are over.
    for session in fs::read_dir(runtime_directory()).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let mark = fs::read_to_string(session.join("lock")).unwrap_or_default();
        if mark.contains(&format!("{}/docker.sock", directory.display())) {
            let _ = fs::remove_dir_all(session);
        }
    }
}

/// The daemon's processes: its containerd, and what that keeps containers with.
fn processes_of(directory: &Path) -> Vec<Pid> {
    const PROGRAMS: [&str; 4] = ["containerd", "containerd-shim-runc-v2", "dockerd", "runc"];
    let (directory, namespace) = (format!("{}/", directory.display()), namespace(directory));
    let is_ours = |line: &str| {
        let mut words = line.split('\0');
        words.next().is_some_and(|program| PROGRAMS.iter().any(|known| Path::new(program).ends_with(known)))
            && words.any(|word| word.contains(&directory) || word == namespace)
    };
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    let line = |pid: &Pid| fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    pids.filter(|pid| is_ours(&line(pid))).collect()
}

fn children_of(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok().and_then(Pid::from_raw)).collect()
}

fn unmount_below(directory: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| Path::new(point).starts_with(directory)) {
        let _ = Command::new("umount").args(["--lazy", point]).status();
    }
}

const HOLDER: &str = "CELLBLOCK_TEST_HOLDS_A_PRIVATE_ENGINE";

/// What the next test starts and kills.
#[tokio::test]
async fn a_test_that_has_an_engine() {
    if env::var_os(HOLDER).is_none() {
        return;
    }
    let _engine = PrivateEngine::start(true).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_test_that_is_killed_leaves_nothing_of_its_engine() {
    if !rustix::process::getuid().is_root() || Command::new("dockerd").arg("--version").output().is_err() {
        return say("skipped: a private engine needs root and `dockerd`");
    }
    let mut test = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "private::a_test_that_has_an_engine", "--nocapture"])
        .env(HOLDER, "1")
        .spawn()
        .expect("a test");
    let directory = Path::new(PLACES).join(format!("{PREFIX}{}", test.id()));
    let address = format!("unix://{}/docker.sock", directory.display());
    until("its engine runs", async || Docker::connect_to(&address).await.is_ok()).await;
    test.kill().expect("it is killed");
    test.wait().expect("it has ended");
    within(2 * GRACE, "nothing is left", async || !directory.exists() && processes_of(&directory).is_empty()).await;
}
