//! A container that somebody pauses: the code in it stands still, and whoever waits for it is told.

use std::time::{Duration, Instant};

use cellblock::{Event, LinkPolicy, Rung, Session, State, Status};
use futures_util::StreamExt as _;

use crate::controller::{self, Controller};
use crate::deaths::SOON;
use crate::lab::{Ask as _, Lab, as_data, on};
use crate::reattach::GATE;

/// A pause is named within this, as is promised.
const NAMED: Duration = Duration::from_secs(3);

impl Lab {
    pub(crate) async fn pause(&self, session: &str, paused: bool) {
        let id = self.container(session).await.expect("its container").id;
        let done = if paused {
            self.bollard().pause_container(&id.0).await
        } else {
            self.bollard().unpause_container(&id.0).await
        };
        done.expect("the engine does so");
    }
}

#[tokio::test]
async fn a_container_paused_for_a_while_loses_nothing() {
    on(async |lab| {
        let name = lab.start("pause", []);
        let code = format!("{GATE}\nx = 41\nprint('begun', flush=True)\ngate('go')\nprint('end')");
        let mut holder = Controller::holding(&name, &code);
        holder.until("begun");
        lab.open_gate(&name, "go-not").await;
        lab.pause(&name, true).await;
        let second = controller::run(["session", "result", &name]);
        assert_eq!(second.code, Some(7), "it is there, and cannot be held: {}", second.stderr);
        lab.pause(&name, false).await;
        lab.open_gate(&name, "go").await;
        let ended = holder.ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "begun\nend\n"), "{}", ended.stderr);

        lab.pause(&name, true).await;
        let begun = Instant::now();
        let paused = controller::run(["run", "--session", &name, "-c", "x + 1"]);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!((paused.code, paused.stdout.as_str()), (Some(7), ""), "{}", paused.stderr);
        assert!(paused.stderr.contains("paused"), "{}", paused.stderr);
        lab.pause(&name, false).await;
        assert_eq!(controller::run(["run", "--session", &name, "-c", "x + 1"]).stdout, "42\n");
    })
    .await;
}

#[tokio::test]
async fn a_pause_in_the_middle_of_a_cell_is_named_while_it_lasts() {
    on(async |lab| {
        for link in [LinkPolicy::Socket, LinkPolicy::Relay] {
            let session = lab.builder("pause").link(link).start().await.expect("a session");
            let code = "print('begun')\ngate('one')\nprint('on')\ngate('two')\nprint('end')\n6 * 7";
            let mut events = session.run_stream(format!("{GATE}\n{code}"));
            let mut next = async || events.next().await.expect("Done is the last").expect("the call goes well");
            while !matches!(next().await, Event::Stdout(_)) {}
            for gate in ["one", "two"] {
                lab.pause(session.name(), true).await;
                let begun = Instant::now();
                let Event::Paused { container } = next().await else { panic!("nothing else happens") };
                assert!(begun.elapsed() < NAMED, "{:?}", begun.elapsed());
                assert_eq!(container, lab.container(session.name()).await.expect("it is there").name);
                lab.pause(session.name(), false).await;
                lab.open_gate(session.name(), gate).await;
                assert!(matches!(next().await, Event::Stdout(_)), "a pause is told once");
            }
            let execution = loop {
                if let Event::Done(execution) = next().await {
                    break execution;
                }
            };
            assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
            assert_eq!((execution.stdout.text.as_str(), execution.text()), ("begun\non\nend\n", Some("42")));
            assert_eq!(execution.stderr.text, "");
            session.stop().await.expect("it stops");
        }
    })
    .await;
}

#[tokio::test]
async fn a_pause_is_told_to_whoever_watches() {
    on(async |lab| {
        let name = lab.start("watched", []);
        let session = lab.attach(&name).await;
        let mut watch = Session::watch(lab.engine(), &name).await.expect("it can be watched");
        let mut next = async || watch.next().await.expect("it runs").expect("the watch goes well");
        let cell = session.run(format!("{GATE}\nprint('begun')\ngate('go')\nprint('end')")).into_future();
        let watched = async {
            while !matches!(next().await, Event::Stdout(_)) {}
            lab.pause(&name, true).await;
            let begun = Instant::now();
            let Event::Paused { container } = next().await else { panic!("nothing else happens") };
            assert!(begun.elapsed() < NAMED, "{:?}", begun.elapsed());
            assert_eq!(container, lab.container(&name).await.expect("it is there").name);
            lab.pause(&name, false).await;
            lab.open_gate(&name, "go").await;
            assert!(matches!(next().await, Event::Stdout(_)), "a pause is told once");
        };
        let (execution, ()) = tokio::join!(cell, watched);
        assert_eq!(execution.expect("the call goes well").stdout.text, "begun\nend\n");
    })
    .await;
}

#[tokio::test]
async fn a_pause_is_told_to_whoever_waits_for_a_command() {
    on(async |lab| {
        let mut paused = Vec::new();
        for manner in [None, Some("--json")] {
            let name = lab.start(manner.map_or("text", |_| "data"), []);
            let code = "import time\nprint('begun', flush=True)\ntime.sleep(60)";
            let args = ["run", "--session", &name, "--timeout", "5", "-c", code];
            let holder = Controller::start(args.into_iter().chain(manner));
            let mut watcher = Controller::start(["session", "watch", &name]);
            watcher.until("begun");
            let container = lab.container(&name).await.expect("it is there").name;
            lab.pause(&name, true).await;
            paused.push((manner, container, holder, watcher));
        }
        for (manner, container, holder, watcher) in paused {
            let note = format!("the container is paused: `docker unpause {container}` lets it go on\n");
            let ended = holder.ended();
            assert_eq!((ended.code, ended.stderr.matches(&note).count()), (Some(3), 1), "{}", ended.stderr);
            let data = manner.map(|_| as_data(&ended)["stderr"]["text"].to_string());
            let said = data.as_ref().unwrap_or(&ended.stderr);
            assert!(said.contains("the container was paused, and was killed when the time was up"), "{said}");
            let watched = watcher.ended();
            assert_eq!((watched.code, watched.stderr.matches(&note).count()), (Some(0), 1), "{}", watched.stderr);
        }
    })
    .await;
}

#[tokio::test]
async fn a_bridge_without_an_answer_is_no_pause() {
    on(async |lab| {
        let session = lab.builder("starved").start().await.expect("a session");
        let mut events = session.run_stream("import time\nprint('begun', flush=True)\ntime.sleep(5)");
        let mut next = async || events.next().await.expect("Done is the last").expect("the call goes well");
        while !matches!(next().await, Event::Stdout(_)) {}
        // The bridge is PID 1, and knows nothing of it.
        lab.signal(session.name(), "SIGSTOP").await;
        let execution = loop {
            match next().await {
                Event::Paused { .. } => panic!("the engine says that it runs"),
                Event::Done(execution) => break execution,
                _ => {}
            }
        };
        assert_eq!((&execution.status, execution.state), (&Status::Ok, State::Kept));
        lab.signal(session.name(), "SIGCONT").await;
        assert_eq!(session.value("1 + 1").await, "2");
    })
    .await;
}

#[tokio::test]
async fn a_container_that_stays_paused_is_bounded_by_the_timeout() {
    on(async |lab| {
        let session = lab.builder("paused").grace(Duration::from_millis(500)).start().await.expect("a session");
        let code = "import time\nprint('begun', flush=True)\ntime.sleep(60)";
        let mut events = session.run_stream(code).timeout(Duration::from_secs(4));
        let mut next = async || events.next().await.expect("Done is the last").expect("the call goes well");
        while !matches!(next().await, Event::Stdout(_)) {}
        lab.pause(session.name(), true).await;
        let begun = Instant::now();
        assert!(matches!(next().await, Event::Paused { .. }) && begun.elapsed() < NAMED, "{:?}", begun.elapsed());
        let execution = loop {
            if let Event::Done(execution) = next().await {
                break execution;
            }
        };
        // The time, the grace, the wait for a bridge that does not answer, and the removal.
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!((&execution.status, execution.state), (&Status::TimedOut, State::ContainerGone));
        assert_eq!((execution.rung, execution.stdout.text.as_str()), (Some(Rung::ContainerKill), "begun\n"));
        assert!(execution.stderr.text.contains("the container was paused"), "{:?}", execution.stderr.text);
        assert!(lab.container(session.name()).await.is_none(), "what it says is true");
        let error = session.run("1").await.expect_err("it is gone");
        assert!(error.is_session_gone(), "{error:?}");
        let how = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(how.contains("was paused") && how.contains("did not answer"), "{how}");
    })
    .await;
}
