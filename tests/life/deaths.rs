//! What goes down around the code, or below it, and is named.

use std::time::{Duration, Instant};

use bollard::query_parameters::KillContainerOptionsBuilder;
use cellblock::{Event, LinkPolicy, Ran, Rung, Session, SessionBuilder, State, Status, Workspace};
use futures_util::StreamExt as _;

use crate::controller::{self, Controller};
use crate::lab::{Ask as _, Lab, as_data, on};

/// "At once" on a busy machine: far less than what is waited for here sleeps, or may run.
pub(crate) const SOON: Duration = Duration::from_secs(20);

impl Lab {
    pub(crate) fn builder(&self, what: &str) -> SessionBuilder {
        Session::builder().engine(self.engine()).image(&self.image).name(self.name(what))
    }
}

#[tokio::test]
async fn every_death_of_the_kernel_is_named_soon() {
    on(async |lab| {
        let session = lab.builder("deaths").memory(256 << 20).start().await.expect("a session");
        let deaths = [
            ("os._exit(3)", "the kernel died: exit code 3"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "the kernel died: signal 9"),
            ("os.kill(os.getpid(), signal.SIGSEGV)", "the kernel died: signal 11"),
            ("os.kill(os.getppid(), signal.SIGKILL)", "the kernel died: signal 9"),
            ("hog = b'x' * (1 << 30)", "the kernel died: out of memory"),
        ];
        for (code, expected) in deaths {
            let begun = Instant::now();
            let execution = session.cell(format!("import os, signal, time\n{code}\ntime.sleep(60)")).await;
            assert_eq!((execution.status.to_string().as_str(), execution.state), (expected, State::KernelRestarted));
            assert!(begun.elapsed() < SOON, "{:?}: {code}", begun.elapsed());
            assert_eq!(session.value("1 + 1").await, "2");
        }
    })
    .await;
}

#[tokio::test]
async fn a_child_out_of_memory_is_told_to_its_cell_alone() {
    on(async |lab| {
        let session = lab.builder("child").memory(256 << 20).start().await.expect("a session");
        let code = "import subprocess, sys\nx = 41\nhog = [sys.executable, '-c', \"x = b'x' * (1 << 30)\"]\n\
                    subprocess.run(hog).returncode";
        let execution = session.cell(code).await;
        assert_eq!((execution.text(), execution.state), (Some("-9"), State::Kept), "{}", execution.status);
        assert!(execution.stderr.text.contains("out of memory"), "{:?}", execution.stderr.text);
        let next = session.cell("x + 1").await;
        assert_eq!((next.text(), next.stderr.text.as_str()), (Some("42"), ""));
        // Whoever waits for a worker that was killed may wait for ever; then this is all there is to explain it.
        let code = "import multiprocessing, time\nchild = multiprocessing.get_context('fork').Process(target=lambda: b'x' * (1 << 30))\n\
                    child.start()\ntime.sleep(60)";
        let execution = session.run(code).timeout(Duration::from_secs(3)).await.expect("the call goes well");
        assert_eq!((execution.status, execution.rung), (Status::TimedOut, Some(Rung::Interrupt)));
        assert!(execution.stderr.text.contains("out of memory"), "{:?}", execution.stderr.text);
        assert_eq!(session.cell("x + 1").await.stderr.text, "");
    })
    .await;
}

#[tokio::test]
async fn full_filesystems_are_errors_and_no_deaths() {
    on(async |lab| {
        let builder = lab.builder("full").memory(256 << 20).workspace(Workspace::Memory(64 << 20));
        let session = builder.start().await.expect("a session");
        let code = "
import errno, os
full = []
for directory in ('/workspace', '/tmp', '/dev/shm', '/run/cellblock'):
    for what in ('bytes', 'files'):
        try:
            for i in range(200_000):
                with open(f'{directory}/fill-{what}-{i}', 'wb') as file:
                    if what == 'bytes':
                        while True: file.write(b'x' * 65536)
        except OSError as error:
            full.append(error.errno == errno.ENOSPC)
full";
        let execution = session.cell(code).await;
        let expected = ["True"; 8].join(", ");
        assert_eq!(execution.text(), Some(format!("[{expected}]").as_str()), "{}", execution.status);
        assert_eq!(session.value("1 + 1").await, "2");
        // With all of them full a kernel still dies, is named, and is replaced.
        let dead = session.cell("os._exit(3)").await;
        assert_eq!(dead.status.to_string(), "the kernel died: exit code 3");
        assert_eq!((dead.state, session.value("1 + 1").await.as_str()), (State::KernelRestarted, "2"));
        let hog = session.cell("hog = b'x' * (1 << 30)").await;
        assert_eq!(
            (hog.status.to_string().as_str(), hog.state),
            ("the kernel died: out of memory", State::KernelRestarted)
        );
        assert_eq!(session.value("1 + 1").await, "2");
    })
    .await;
}

#[tokio::test]
async fn a_container_that_goes_has_its_exit_code() {
    on(async |lab| {
        for remove in [false, true] {
            let name = lab.start(if remove { "removed" } else { "killed" }, []);
            let mut holder = Controller::holding(&name, "print('begun', flush=True)\nimport time\ntime.sleep(60)");
            holder.until("begun");
            let begun = Instant::now();
            if remove {
                let options = bollard::query_parameters::RemoveContainerOptionsBuilder::new().force(true).build();
                let id = lab.container(&name).await.expect("its container").id;
                lab.bollard().remove_container(&id.0, Some(options)).await.expect("it is removed");
            } else {
                lab.kill(&name).await;
            }
            let ended = holder.ended();
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "begun\n"), "{}", ended.stderr);
            assert!(ended.stderr.contains("variables and files are gone"), "{}", ended.stderr);
            assert!(
                ended.stderr.contains("the container was"),
                "killed or removed, as the engine tells: {}",
                ended.stderr
            );
            let next = controller::run(["session", "result", &name]);
            assert!(next.code == Some(7) && next.stderr.contains("there is no session"), "{}", next.stderr);
        }
    })
    .await;
}

impl Lab {
    pub(crate) async fn kill(&self, session: &str) {
        self.signal(session, "SIGKILL").await;
    }

    pub(crate) async fn signal(&self, session: &str, signal: &str) {
        let id = self.container(session).await.expect("its container").id;
        let options = KillContainerOptionsBuilder::new().signal(signal).build();
        self.bollard().kill_container(&id.0, Some(options)).await.expect("it is signalled");
    }
}

/// Kills the relay: all that has no parent in the container but PID 1, since the engine's exec started it.
const KILL_RELAY: &str = "
import os, signal, time
def kill_relay():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if pid != '1' and open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1] == '0':
            os.kill(int(pid), signal.SIGKILL)
";

#[tokio::test]
async fn a_lost_link_is_made_again_and_loses_nothing_of_a_detached_session() {
    on(async |lab| {
        let builder = lab.builder("relay").link(LinkPolicy::Relay).detached(true);
        let session = builder.start().await.expect("a session");
        session.cell(KILL_RELAY).await;
        let code = "print('begun', flush=True)\nkill_relay()\nfor i in range(50):\n    print(i, flush=True)\n    \
                    time.sleep(0.02)\nx = 41\nprint('end')\nx + 1";
        let lines: String = (0..50).map(|i| format!("{i}\n")).collect();
        for round in 0..3 {
            let mut events = session.run_stream(code);
            let mut heard = String::new();
            let execution = loop {
                match events.next().await.expect("Done is the last").expect("the call goes well") {
                    Event::Stdout(text) => heard.push_str(&text),
                    Event::Done(execution) => break execution,
                    _ => {}
                }
            };
            assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept), "{round}");
            assert_eq!(execution.stdout.text, format!("begun\n{lines}end\n"), "{round}");
            assert_eq!((heard, execution.outputs_left_out), (execution.stdout.text.clone(), 0), "{round}");
            // Its reply may have been on the way when the link was lost, but not this long before.
            assert_eq!(execution.text(), Some("42"), "{round}");
        }
        // A cell that ends before anybody is there again is had from the recording, its end included.
        let execution = session.cell("kill_relay()\nprint('last words')\n1 / 0").await;
        assert_eq!(execution.error().map(|error| error.ename.as_str()), Some("ZeroDivisionError"), "{execution:?}");
        assert_eq!((execution.stdout.text.as_str(), execution.state), ("last words\n", State::Kept));
        let execution = session.cell("kill_relay()\nos._exit(3)").await;
        assert_eq!(execution.status.to_string(), "the kernel died: exit code 3");
        assert_eq!(execution.state, State::KernelRestarted);
        session.cell(KILL_RELAY).await;
        let execution = session.run("kill_relay()\ntime.sleep(60)").timeout(Duration::from_secs(1)).await;
        let execution = execution.expect("the call goes well");
        assert_eq!((execution.status, execution.state), (Status::TimedOut, State::Kept));
        assert_eq!(session.value("1 + 1").await, "2");
    })
    .await;
}

#[tokio::test]
async fn a_lost_link_is_made_again_and_what_it_cost_an_owned_session_is_said() {
    on(async |lab| {
        let session = lab.builder("relay").link(LinkPolicy::Relay).start().await.expect("a session");
        session.cell(KILL_RELAY).await;
        // Nothing is recorded of an owned session: what was sent meanwhile is lost, and counted.
        let begun = Instant::now();
        let execution = session.cell("x = 41\nkill_relay()\ntime.sleep(2)\nprint('end')\nx + 1").await;
        assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
        assert_eq!((execution.stdout.text.as_str(), execution.text()), ("end\n", Some("42")));
        assert!(execution.outputs_left_out > 0 && begun.elapsed() < SOON, "{:?}", begun.elapsed());
        // One that has ended by then is told as what it is: it ran, and nobody knows how it ended.
        let begun = Instant::now();
        let error = session.run("x += 1\nkill_relay()").await.expect_err("nobody knows");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert!(error.ran() != Ran::Never && !error.is_session_gone() && error.hint().is_some(), "{error:?}");
        assert_eq!(session.value("x").await, "42");
        // Between two cells it costs nothing.
        session.cell("import threading\nthreading.Timer(0.2, kill_relay).start()").await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(session.value("x").await, "42");
        assert_eq!(
            session.run("kill_relay()\nos._exit(3)").await.expect("it goes well").status.to_string(),
            "the kernel died: exit code 3"
        );
        assert_eq!(session.value("1 + 1").await, "2");
    })
    .await;
}

#[tokio::test]
async fn what_is_told_of_a_death_is_data_too() {
    on(async |lab| {
        let run = controller::run([
            "run",
            "--image",
            &lab.image,
            "--memory",
            "256m",
            "--json",
            "--keep-going",
            "-c",
            "import os; os._exit(3)",
            "-c",
            "x = bytearray(1 << 30)",
            "-c",
            "1 + 1",
        ]);
        assert_eq!(run.code, Some(4), "{}", run.stderr);
        let lines: Vec<serde_json::Value> =
            run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let [exit, memory, next] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((&exit["status"], &exit["state"]), (&"kernel_died".into(), &"kernel_restarted".into()));
        assert_eq!((&exit["death"]["code"], &exit["death"]["out_of_memory"]), (&3.into(), &false.into()));
        assert_eq!((&memory["death"]["signal"], &memory["death"]["out_of_memory"]), (&9.into(), &true.into()));
        assert_eq!((&next["status"], &next["state"]), (&"ok".into(), &"kept".into()));
        let again = controller::run(["run", "--image", &lab.image, "--json", "-c", "1 + 1"]);
        assert_eq!(as_data(&again)["result"]["data"]["text/plain"], "2");
    })
    .await;
}
