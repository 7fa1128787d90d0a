//! Another user of the same engine, with and without a runtime directory of a login.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::getuid;

use crate::controller::{Controller, cellblock};
use crate::lab::{Lab, on, say, within};

/// Nobody's on any machine.
const UID: u32 = 61_823;

/// Who else uses the engine, as a member of its group.
struct Other {
    group: u32,
    runtime: tempfile::TempDir,
}

impl Other {
    /// None, with a word about it, where nobody can become another user.
    fn new(lab: &Lab) -> Option<Self> {
        let socket = lab.docker.address().strip_prefix("unix://").map(PathBuf::from);
        let group = socket.and_then(|socket| Some(std::fs::metadata(socket).ok()?.gid()));
        if !getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() || group.is_none() {
            say("skipped: another user needs root, `setpriv` and an engine with a socket");
            return None;
        }
        let runtime = tempfile::Builder::new().prefix("cb-").tempdir().expect("a directory");
        std::os::unix::fs::chown(runtime.path(), Some(UID), Some(UID)).expect("it is given away");
        Some(Self { group: group?, runtime })
    }

    fn command<const N: usize>(&self, args: [&str; N], logged_in: bool) -> Command {
        let run = cellblock(args);
        let mut command = Command::new("setpriv");
        let (uid, group) = (UID.to_string(), self.group.to_string());
        command
            .args(["--reuid", &uid, "--regid", &uid, "--groups", &group])
            .arg(run.get_program())
            .args(run.get_args());
        command.current_dir(self.runtime.path()).env("HOME", self.runtime.path());
        match logged_in {
            true => command.env("XDG_RUNTIME_DIR", self.runtime.path()),
            false => command.env_remove("XDG_RUNTIME_DIR"),
        };
        command
    }

    fn spills(&self) -> usize {
        let places = PathBuf::from(format!("/var/tmp/cellblock-{UID}"));
        std::fs::read_dir(places).into_iter().flatten().flatten().map(|place| entries(&place.path())).sum()
    }

    fn directories(&self) -> usize {
        entries(&self.runtime.path().join("cellblock"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        for place in ["/tmp", "/var/tmp"] {
            let _ = std::fs::remove_dir_all(format!("{place}/cellblock-{UID}"));
        }
    }
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).into_iter().flatten().count()
}

#[tokio::test]
async fn another_user_has_sessions_and_leftovers_of_their_own() {
    on(async |lab| {
        let Some(other) = Other::new(lab) else { return };
        let ours = lab.start("same", []);
        let code = "print('x' * 3_000_000)\nprint('\\nbegun', flush=True)\nimport time\ntime.sleep(60)";
        let mut theirs = Controller::spawn(other.command(["run", "--image", &lab.image, "-c", code], true));
        theirs.until("begun");
        let all = async || (other.directories(), other.spills()) == (1, 1);
        within(Duration::from_secs(5), "the long text has its file", all).await;

        // The same user without a login, as in a cron job, sweeps elsewhere and takes nothing away.
        let run = Controller::spawn(other.command(["run", "--image", &lab.image, "-c", "1 + 1"], false)).ended();
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "2\n"), "{}", run.stderr);
        let pruned = Controller::spawn(other.command(["prune"], false)).ended();
        assert_eq!(pruned.code, Some(0), "{}", pruned.stderr);
        assert_eq!((other.directories(), other.spills()), (1, 1));

        // Names are each user's own, and so are lists.
        let started =
            Controller::spawn(other.command(["session", "start", &ours, "--image", &lab.image], true)).ended();
        assert_eq!((started.code, started.stdout.trim()), (Some(0), ours.as_str()), "{}", started.stderr);
        let listed = Controller::spawn(other.command(["session", "list"], true)).ended();
        assert_eq!(listed.stdout.lines().filter(|line| line.starts_with(&ours)).count(), 1, "{}", listed.stdout);
        let stopped = Controller::spawn(other.command(["session", "stop", &ours], true)).ended();
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert!(lab.container(&ours).await.is_some(), "ours is still there");

        theirs.kill();
        within(Duration::from_secs(10), "what was left is gone", async || {
            let pruned = Controller::spawn(other.command(["prune"], true)).ended();
            pruned.code == Some(0) && (other.directories(), other.spills()) == (0, 0)
        })
        .await;
    })
    .await;
}
