//! An engine that goes away in the middle of a cell, and comes back: a private one, so that nobody else's goes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters::ImportImageOptions;
use cellblock::{Docker, Engine, LinkPolicy, Session, State, Status};
use futures_util::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::lab::{Lab, on_for, say, within};
use crate::outage::Going;

/// A Docker daemon with all that it has in a directory of its own.
struct PrivateEngine {
    directory: PathBuf,
    /// Ends the daemon when its stdin ends, which it does with this process, however that ends.
    warden: Option<Child>,
}

impl PrivateEngine {
    /// None, with a word about it, where there can be none.
    async fn start(live_restore: bool) -> Option<Self> {
        if !rustix::process::getuid().is_root() || Command::new("dockerd").arg("--version").output().is_err() {
            say("skipped: a private engine needs root and `dockerd`");
            return None;
        }
        // Short, for the sockets in it.
        let directory = PathBuf::from(format!("/var/tmp/cb-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let mut engine = Self { directory, warden: None };
        engine.resume(live_restore).await.then_some(engine)
    }

    fn address(&self) -> String {
        format!("unix://{}/docker.sock", self.directory.display())
    }

    /// Starts the daemon, again if it was killed. False, with a word about it, if it does not come up.
    async fn resume(&mut self, live_restore: bool) -> bool {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let log = fs::File::create(path("log")).expect("a log");
        // In a network of its own, for it takes the bridge of any other daemon away.
        let script = "unshare --net dockerd \"$@\" & cat; kill $!; wait";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "dockerd", "--bridge", "none", "--iptables=false", "--ip-forward=false"])
            .args(["--ip-masq=false", "--data-root", &path("data"), "--exec-root", &path("exec")])
            .args(["--pidfile", &path("pid"), "--host", &self.address(), "--config-file", &path("config")])
            .args([
                "--containerd-namespace",
                "cellblock-test",
                "--containerd-plugins-namespace",
                "cellblock-test-plugins",
            ]);
        if live_restore {
            command.arg("--live-restore");
        }
        fs::write(path("config"), "{}").expect("a configuration");
        // A daemon takes whatever has these pids now for its own.
        let _ = (fs::remove_file(path("pid")), fs::remove_file(path("exec/containerd/containerd.pid")));
        let warden = command.stdin(Stdio::piped()).stdout(log.try_clone().expect("a file")).stderr(log).spawn();
        self.warden = Some(warden.expect("a shell"));
        let begun = Instant::now();
        while Docker::connect_to(&self.address()).await.is_err() {
            if begun.elapsed() > Duration::from_secs(20) {
                let log = fs::read_to_string(path("log")).unwrap_or_default();
                say(&format!("skipped: no private engine here: {}", log.lines().last().unwrap_or_default()));
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        true
    }

    async fn docker(&self) -> Docker {
        Docker::connect_to(&self.address()).await.expect("it is there")
    }

    /// Copies an image from the engine of the other tests.
    async fn load(&self, lab: &Lab) {
        let theirs = lab.bollard();
        let ours = bollard::Docker::connect_with_host(&self.address()).expect("a client");
        let image = theirs.export_image(&lab.image);
        let mut load = ours.import_image_stream(ImportImageOptions::default(), image, None);
        while let Some(progress) = load.next().await {
            progress.expect("it is loaded");
        }
    }

    /// Kills the daemon as nothing can be helped against. What runs in its containers goes on.
    fn kill(&mut self) {
        let pid = fs::read_to_string(self.directory.join("pid")).expect("its pid");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::KILL).expect("it is killed");
        self.end_warden();
    }

    fn end_warden(&mut self) {
        if let Some(mut warden) = self.warden.take() {
            drop(warden.stdin.take());
            let _ = warden.wait();
        }
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        self.end_warden();
        // What the daemon left mounted is not the tests' to remove.
        for _ in 0..50 {
            unmount_below(&self.directory);
            if fs::remove_dir_all(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        say(&format!("not removed: {}", self.directory.display()));
    }
}

fn unmount_below(directory: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| Path::new(point).starts_with(directory)) {
        let _ = Command::new("umount").args(["--lazy", point]).status();
    }
}

#[tokio::test]
async fn an_engine_that_restarts_gives_its_sessions_back_or_their_end_is_told() {
    // To copy an image is much work for a busy machine.
    on_for(Duration::from_secs(200), async |lab| {
        let Some(mut private) = PrivateEngine::start(true).await else { return };
        private.load(lab).await;
        let engine: Arc<dyn Engine> = Arc::new(private.docker().await);
        let start = async |what: &str, link| {
            let builder = Session::builder().engine(Arc::clone(&engine)).image(&lab.image).name(lab.name(what));
            builder.detached(true).link(link).start().await.expect("a session")
        };
        // The second time it takes its containers down with it.
        for live_restore in [true, false] {
            let socket = start("socket", LinkPolicy::Socket).await;
            let relay = start("relay", LinkPolicy::Relay).await;
            let code = "x = 41\ngate('go')\nprint('end')\nx + 1";
            let (one, other) = tokio::join!(Going::start(&socket, code), Going::start(&relay, code));
            private.kill();
            assert!(private.resume(live_restore).await, "it came up once");
            let back = Instant::now();
            let listed = Session::list(engine.as_ref()).await.expect("a list");
            // Docker 20.10 gives none back that it is to remove at its end.
            let kept = live_restore && listed.len() == 2;
            for (going, session) in [(one, &socket), (other, &relay)] {
                if kept {
                    open_gate(engine.as_ref(), session.name()).await;
                    let execution = going.finish().await.expect("the call goes well");
                    assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
                    assert_eq!((execution.stdout.text.as_str(), execution.text()), ("begun\nend\n", Some("42")));
                    session.stop().await.expect("it stops");
                } else {
                    let execution = going.finish().await.expect("the call goes well");
                    assert!(back.elapsed() < Duration::from_secs(3), "{:?}", back.elapsed());
                    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
                    assert_eq!((execution.state, execution.stdout.text.as_str()), (State::ContainerGone, "begun\n"));
                    assert!(session.run("1").await.expect_err("it is gone").is_session_gone());
                }
            }
            within(Duration::from_secs(10), "no container is left", async || {
                Session::list(engine.as_ref()).await.is_ok_and(|all| all.is_empty())
            })
            .await;
        }
    })
    .await;
}

async fn open_gate(engine: &dyn Engine, session: &str) {
    let listed = Session::list(engine).await.expect("a list").into_iter().find(|one| one.name == session);
    let container = listed.expect("it is listed").container;
    let mut exec = engine.exec(&container, &["/bin/touch", "/workspace/go"]).await.expect("it runs");
    exec.stdin.shutdown().await.expect("its stdin ends");
    exec.stdout.read_to_end(&mut Vec::new()).await.expect("its stdout ends");
    assert_eq!(exec.end.await.expect("it ends").code, Some(0));
}
