//! The controller is killed in the middle of a cell, and another one gets the variables and the whole result.

use std::time::Duration;

use cellblock::{Event, Rung, Session, State, Status};
use futures_util::StreamExt as _;

use crate::controller::{self, Controller};
use crate::lab::{Ask as _, Lab, as_data, on};

/// Waits for a gate that the test opens from outside, whoever is there.
pub(crate) const GATE: &str = "
import os, time
def gate(name):
    while not os.path.exists('/workspace/' + name): time.sleep(0.01)
";

/// Kills the holder of a session once its cell has printed `begun`.
pub(crate) fn kill_in(session: &str, code: &str) {
    kill_in_with(session, code, []);
}

fn kill_in_with<const N: usize>(session: &str, code: &str, args: [&str; N]) {
    let code = format!("{GATE}\n{code}");
    let mut holder = Controller::start(["run", "--session", session, "-c", &code].iter().chain(&args));
    holder.until("begun");
    holder.kill();
}

impl Lab {
    /// Waits for the end of the latest cell as one who only watches, and so is no controller.
    pub(crate) async fn until_cell_ended(&self, session: &str) {
        let mut events = Session::watch(self.engine(), session).await.expect("it can be watched");
        while let Some(event) = events.next().await {
            if matches!(event.expect("the watch goes well"), Event::Done(_)) {
                return;
            }
        }
        panic!("the session ended");
    }
}

#[tokio::test]
async fn a_cell_that_still_runs_is_had_whole_by_the_next_controller() {
    on(async |lab| {
        let name = lab.start("running", []);
        kill_in(&name, "x = 41\nprint('begun', flush=True)\ngate('alone')\nprint('alone')\nx += 1\ngate('end')\nx");
        lab.open_gate(&name, "alone").await;
        let session = lab.attach(&name).await;
        let behind = session.run("print('own')\nx + 1").into_future();
        let ((), left, behind) = tokio::join!(lab.open_gate(&name, "end"), session.left(), behind);
        assert_eq!((left.status.clone(), left.state, left.rung), (Status::Ok, State::Kept, None));
        assert_eq!((left.stdout.text.as_str(), left.text()), ("begun\nalone\n", Some("42")));
        let behind = behind.expect("the call goes well");
        assert_eq!((behind.stdout.text.as_str(), behind.text(), behind.state), ("own\n", Some("43"), State::Kept));
        assert!(session.recovered().await.expect("the session goes on").is_none(), "it was had once");
    })
    .await;
}

#[tokio::test]
async fn a_cell_that_ended_with_nobody_there_is_had_whole_once() {
    on(async |lab| {
        let name = lab.start("ended", []);
        let code = "import sys\nprint('begun', flush=True)\ngate('go')\nprint('one'); print('two', file=sys.stderr)\n\
                    display({'text/plain': 'shown'}, raw=True)\nx = {'a': 1}\nx";
        kill_in(&name, code);
        lab.open_gate(&name, "go").await;
        lab.until_cell_ended(&name).await;
        let ended = controller::run(["session", "result", &name, "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let result = as_data(&ended);
        assert_eq!((&result["status"], &result["state"]), (&"ok".into(), &"kept".into()));
        assert_eq!(result["stdout"]["text"], "begun\none\n");
        assert_eq!(result["stderr"]["text"], "two\n");
        assert_eq!(result["result"]["data"]["text/plain"], "{'a': 1}");
        let shown = result["outputs"].as_array().expect("outputs");
        assert!(shown.iter().any(|output| output["data"]["text/plain"] == "shown"), "{shown:?}");

        let again = controller::run(["session", "result", &name]);
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{}", again.stderr);
        assert!(again.stderr.contains("no cell was left"), "{}", again.stderr);
        assert_eq!(controller::run(["run", "--session", &name, "-c", "x['a'] + 41"]).stdout, "42\n");
    })
    .await;
}

#[tokio::test]
async fn an_error_with_nobody_there_is_had_with_its_traceback() {
    on(async |lab| {
        let name = lab.start("error", []);
        kill_in(&name, "x = 41\nprint('begun', flush=True)\ngate('go')\n1 / 0");
        lab.open_gate(&name, "go").await;
        lab.until_cell_ended(&name).await;
        let ended = controller::run(["session", "result", &name]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), "begun\n"), "{}", ended.stderr);
        assert!(ended.stderr.contains("ZeroDivisionError: division by zero"), "{}", ended.stderr);
        assert_eq!(lab.attach(&name).await.value("x").await, "41");
    })
    .await;
}

/// A cell that dies with nobody there, and what is said of it.
async fn dies_alone(lab: &Lab, what: &str, code: &str, args: &[&str]) -> (Session, cellblock::Death) {
    let name = lab.name(what);
    let started = controller::run(["session", "start", &name, "--image", &lab.image].iter().chain(args));
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let kernel = lab.kernel(&name).await;
    let file = "open('kept', 'w').write('here')";
    kill_in(
        &name,
        &format!("x = 1\n{file}\nprint('begun', flush=True)\ngate('go')\nprint('last words', flush=True)\n{code}"),
    );
    lab.open_gate(&name, "go").await;
    kernel.until_gone().await;
    let session = lab.attach(&name).await;
    let left = session.left().await;
    let Status::KernelDied(death) = &left.status else { panic!("{:?}", left.status) };
    assert_eq!((left.state, left.rung), (State::KernelRestarted, None));
    assert_eq!(left.stdout.text, "begun\nlast words\n");
    assert_eq!(session.value("'x' in globals(), open('kept').read()").await, "(False, 'here')");
    (session, death.clone())
}

#[tokio::test]
async fn an_exit_with_nobody_there_is_named() {
    on(async |lab| {
        let (session, death) = dies_alone(lab, "exit", "os._exit(3)", &[]).await;
        assert_eq!((death.code, death.signal, death.out_of_memory), (Some(3), None, false));
        assert!(session.recovered().await.expect("the session goes on").is_none());
    })
    .await;
}

#[tokio::test]
async fn a_signal_with_nobody_there_is_named() {
    on(async |lab| {
        let (_, death) = dies_alone(lab, "signal", "os.kill(os.getpid(), 9)", &[]).await;
        assert_eq!((death.code, death.signal, death.out_of_memory), (None, Some(9), false));
    })
    .await;
}

#[tokio::test]
async fn out_of_memory_with_nobody_there_is_named() {
    on(async |lab| {
        let (_, death) = dies_alone(lab, "memory", "hog = b'x' * (1 << 30)", &["--memory", "200m"]).await;
        assert_eq!((death.code, death.signal, death.out_of_memory), (None, Some(9), true));
    })
    .await;
}

#[tokio::test]
async fn a_death_with_nobody_there_has_its_exit_code() {
    on(async |lab| {
        let name = lab.start("dead", []);
        let kernel = lab.kernel(&name).await;
        kill_in(&name, "print('begun', flush=True)\ngate('go')\nos._exit(3)");
        lab.open_gate(&name, "go").await;
        kernel.until_gone().await;
        let ended = controller::run(["session", "result", &name]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), "begun\n"), "{}", ended.stderr);
        assert!(ended.stderr.contains("the kernel died: exit code 3"), "{}", ended.stderr);
        assert!(ended.stderr.contains("variables are gone, files are kept"), "{}", ended.stderr);
        let next = controller::run(["run", "--session", &name, "-c", "1 + 1"]);
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "2\n"), "{}", next.stderr);
    })
    .await;
}

#[tokio::test]
async fn a_death_that_nobody_asks_about_is_told_by_the_next_run() {
    on(async |lab| {
        let name = lab.start("unasked", []);
        let kernel = lab.kernel(&name).await;
        kill_in(&name, "x = 1\nprint('begun', flush=True)\ngate('go')\nos._exit(3)");
        lab.open_gate(&name, "go").await;
        kernel.until_gone().await;
        let next = controller::run(["run", "--session", &name, "-c", "'x' in globals()"]);
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "False\n"), "{}", next.stderr);
        assert!(next.stderr.contains("the kernel was restarted: variables are gone"), "{}", next.stderr);
        let last = controller::run(["run", "--session", &name, "-c", "1 + 1"]);
        assert_eq!((last.stdout.as_str(), last.stderr.as_str()), ("2\n", ""), "it is told once");
    })
    .await;
}

#[tokio::test]
async fn a_deadline_with_nobody_there_interrupts() {
    on(async |lab| {
        let name = lab.start("deadline", []);
        let code = "x = 41\nprint('begun', flush=True)\ntry: time.sleep(60)\nfinally: print('cleaned up')";
        kill_in_with(&name, code, ["--timeout", "1s"]);
        lab.until_cell_ended(&name).await;
        let ended = controller::run(["session", "result", &name, "--json"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let result = as_data(&ended);
        assert_eq!(result["stdout"]["text"], "begun\ncleaned up\n");
        assert_eq!(
            (&result["status"], &result["state"], &result["rung"]),
            (&"timed_out".into(), &"kept".into(), &"interrupt".into())
        );
        assert_eq!(lab.attach(&name).await.value("x + 1").await, "42");
    })
    .await;
}

#[tokio::test]
async fn a_deadline_with_nobody_there_costs_stubborn_code_its_kernel() {
    on(async |lab| {
        let name = lab.start("stubborn", []);
        let kernel = lab.kernel(&name).await;
        let code = "x = 1\nprint('begun', flush=True)\nwhile True:\n    \
                    try: time.sleep(60)\n    except BaseException: print('no', flush=True)";
        kill_in_with(&name, code, ["--timeout", "1s"]);
        kernel.until_gone().await;
        let session = lab.attach(&name).await;
        let left = session.left().await;
        assert_eq!((left.status, left.state), (Status::TimedOut, State::KernelRestarted));
        assert_eq!((left.rung, left.stdout.text.as_str()), (Some(Rung::KernelRestart), "begun\nno\n"));
        let next = session.cell("'x' in globals()").await;
        assert_eq!((next.text(), next.state), (Some("False"), State::Kept), "the result of the cell before said it");
    })
    .await;
}

#[tokio::test]
async fn a_deadline_that_comes_after_the_reattach_holds() {
    on(async |lab| {
        let name = lab.start("late", []);
        kill_in_with(&name, "x = 41\nprint('begun', flush=True)\ntime.sleep(60)", ["--timeout", "4s"]);
        let session = lab.attach(&name).await;
        let left = tokio::time::timeout(Duration::from_secs(8), session.left()).await.expect("it ends in time");
        assert_eq!((left.status, left.state, left.rung), (Status::TimedOut, State::Kept, Some(Rung::Interrupt)));
        assert_eq!(session.value("x + 1").await, "42");
    })
    .await;
}
