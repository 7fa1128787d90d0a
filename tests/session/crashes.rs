//! Controllers that are killed, and what becomes of their sessions.

use std::env;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellblock::{Docker, OnDrop, Session, Status};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::follow::Following;
use crate::host;
use crate::lab::{Ask as _, Lab, tests, until};
use crate::places::say;

tests! {
    container: [
        an_owned_session_ends_soon_after_its_controller_was_killed,
        a_detached_session_and_its_cell_survive_their_controller,
        whenever_a_controller_is_killed_nothing_of_it_is_left,
    ]
}

const NAME: &str = "CELLBLOCK_TEST_CONTROLLER_NAME";
const IMAGE: &str = "CELLBLOCK_TEST_CONTROLLER_IMAGE";
const DETACHED: &str = "CELLBLOCK_TEST_CONTROLLER_DETACHED";
const CODE: &str = "import time\nx = 'kept'\nprint('first', flush=True)\ntime.sleep(4)\nprint('last')\n'result'";

/// The controller that other tests start, in a process of its own, and kill.
#[tokio::test]
async fn a_controller_runs_a_cell_until_it_is_killed() {
    let Ok(name) = env::var(NAME) else { return };
    let engine = Arc::new(Docker::connect().await.expect("an engine"));
    let builder = Session::builder().engine(engine).name(name).image(env::var(IMAGE).expect("an image"));
    let session = builder.detached(env::var_os(DETACHED).is_some()).start().await.expect("a session");
    let running = Following::begin(session.run_stream(CODE).on_drop(OnDrop::LeaveRunning)).until_printed("first").await;
    say("running");
    running.finish().await;
    std::future::pending::<()>().await;
}

/// A controller in another process.
struct Controller {
    child: Child,
    name: String,
}

impl Controller {
    fn start(lab: &Lab, what: &str, detached: bool) -> Self {
        let name = lab.name(what);
        let mut command = Command::new(env::current_exe().expect("this program"));
        command
            .args(["--exact", "crashes::a_controller_runs_a_cell_until_it_is_killed", "--nocapture"])
            .env(NAME, &name)
            .env(IMAGE, lab.fixture().image())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if detached {
            command.env(DETACHED, "1");
        }
        Self { child: command.spawn().expect("a controller"), name }
    }

    async fn until_running(&mut self) {
        let mut lines = BufReader::new(self.child.stderr.take().expect("a pipe")).lines();
        while let Some(line) = lines.next_line().await.expect("text") {
            if line == "running" {
                return;
            }
        }
        panic!("the controller ended");
    }

    /// SIGKILL.
    async fn kill(&mut self) {
        self.child.kill().await.expect("it is killed");
    }
}

async fn is_listed(lab: &Lab, name: &str) -> bool {
    Session::list(lab.engine().as_ref()).await.expect("a list").iter().any(|one| one.name == name)
}

async fn an_owned_session_ends_soon_after_its_controller_was_killed(lab: &Lab) {
    let ours = lab.session().await;
    ours.good("x = 1").await;
    let mut controller = Controller::start(lab, "killed", false);
    controller.until_running().await;
    let directory = directory_of(lab, &controller.name).await;
    assert!(directory.exists());
    controller.kill().await;
    let begun = Instant::now();
    until("the container has ended", async || !is_listed(lab, &controller.name).await).await;
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    assert_eq!(ours.value("x").await, "1", "a living controller's session is nobody else's business");
    // The next session that starts sweeps what is left on the host.
    let next = lab.session().await;
    until("its directory is gone", async || !directory.exists()).await;
    assert_eq!((next.value("2").await, ours.value("x").await), ("2".to_owned(), "1".to_owned()));
}

/// The host's directory of a session that was not made here.
async fn directory_of(lab: &Lab, name: &str) -> std::path::PathBuf {
    let listed = lab.engine().list(&[("cellblock.session", name)]).await.expect("a list");
    host::named(&listed[0].labels["cellblock.directory"])
}

async fn a_detached_session_and_its_cell_survive_their_controller(lab: &Lab) {
    let mut controller = Controller::start(lab, "survivor", true);
    controller.until_running().await;
    controller.kill().await;
    let session = Session::attach(&controller.name).engine(lab.engine()).await.expect("it can be held at once");
    let execution = session.recovered().await.expect("it is known").expect("a cell was left");
    let shown = (execution.status.clone(), execution.stdout.text.as_str(), execution.text());
    assert_eq!(shown, (Status::Ok, "first\nlast\n", Some("'result'")));
    assert_eq!(session.value("x").await, "'kept'");
    session.stop().await.expect("it stops");
}

async fn whenever_a_controller_is_killed_nothing_of_it_is_left(lab: &Lab) {
    let ours = lab.session().await;
    ours.good("x = 1").await;
    let mut names = Vec::new();
    for millis in [30, 100, 200, 400, 700, 1100, 1600] {
        let mut controller = Controller::start(lab, &format!("at-{millis}"), false);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        controller.kill().await;
        names.push(controller.name.clone());
    }
    until("all their containers are gone", async || {
        Session::prune(lab.engine().as_ref()).await.expect("it prunes");
        let listed = Session::list(lab.engine().as_ref()).await.expect("a list");
        names.iter().all(|name| listed.iter().all(|one| one.name != *name))
    })
    .await;
    assert_eq!(ours.value("x").await, "1", "a living controller's session is left alone");
}
