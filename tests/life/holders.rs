//! One controller holds a session; others are told so, or watch.

use std::time::{Duration, Instant};

use cellblock::{Ran, Session, State};
use rustix::process::Signal;

use crate::controller::{self, Controller};
use crate::lab::{Ask as _, files_below, on, runtime_directory, spill_directory};
use crate::reattach::GATE;

#[tokio::test]
async fn a_second_controller_is_told_and_the_first_notices_nothing() {
    on(async |lab| {
        let name = lab.start("held", []);
        let code = format!("{GATE}\nprint('begun', flush=True)\ngate('go')\nprint('end')");
        let mut holder = Controller::holding(&name, &code);
        holder.until("begun");
        for command in [["run", "--session", &name, "-c", "1"].as_slice(), &["session", "result", &name]] {
            // It does not wait for the holder, whose gate is closed.
            let second = controller::run(command);
            assert_eq!((second.code, second.stdout.as_str()), (Some(7), ""), "{}", second.stderr);
            let told = format!("cannot take hold of the session {name}: another controller holds it");
            assert!(second.stderr.contains(&told), "{}", second.stderr);
        }
        lab.open_gate(&name, "go").await;
        let first = holder.ended();
        assert_eq!((first.code, first.stdout.as_str()), (Some(0), "begun\nend\n"), "{}", first.stderr);
    })
    .await;
}

#[tokio::test]
async fn of_many_that_take_hold_at_once_one_holds() {
    on(async |lab| {
        let name = lab.start("race", []);
        let code = format!("{GATE}\nprint('begun', flush=True)\ngate('go')");
        let all: Vec<_> = (0..4).map(|_| Controller::holding(&name, &code)).collect();
        let mut refused = 0;
        let mut holder = None;
        let (sender, ended) = std::sync::mpsc::channel();
        for mut one in all {
            let sender = sender.clone();
            std::thread::spawn(move || {
                // Three end, and one begins.
                let begun = one.prints("begun");
                let _ = sender.send((one, begun));
            });
        }
        for _ in 0..4 {
            match ended.recv_timeout(Duration::from_secs(60)).expect("each begins or ends") {
                (one, true) => assert!(holder.replace(one).is_none(), "two hold it"),
                (one, false) => {
                    let ended = one.ended();
                    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
                    assert!(ended.stderr.contains("holds"), "{}", ended.stderr);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 3);
        lab.open_gate(&name, "go").await;
        assert_eq!(holder.expect("a holder").ended().code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_stopped_controller_holds_on_and_a_killed_one_does_not() {
    on(async |lab| {
        let name = lab.start("frozen", []);
        let mut holder = Controller::holding(&name, &format!("{GATE}\nx = 41\nprint('begun', flush=True)\ngate('go')"));
        holder.until("begun");
        holder.signal(Signal::STOP);
        let error = Session::attach(&name).engine(lab.engine()).await.expect_err("it is held");
        assert!(error.is_held() && error.ran() == Ran::Never, "{error:?}");
        holder.kill();
        let begun = Instant::now();
        let session = lab.attach(&name).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        lab.open_gate(&name, "go").await;
        assert_eq!(session.left().await.state, State::Kept);
        assert_eq!(session.value("x + 1").await, "42");
    })
    .await;
}

#[tokio::test]
async fn a_watcher_sees_what_the_holder_sees_while_it_happens() {
    on(async |lab| {
        let name = lab.start("watched", []);
        let mut watcher = Controller::start(["session", "watch", &name]);
        let code = format!("{GATE}\nprint('begun', flush=True)\ngate('go')\nprint('end')\n41 + 1");
        let mut holder = Controller::holding(&name, &code);
        holder.until("begun");
        watcher.until("begun");
        lab.open_gate(&name, "go").await;
        let ended = holder.ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "begun\nend\n42\n"), "{}", ended.stderr);
        watcher.until("end");
        // The next holder's cells too, and one that is killed disturbs nobody.
        let second = Controller::start(["session", "watch", &name]);
        let mut next = Controller::holding(&name, "print('next', flush=True)\nimport time\ntime.sleep(60)");
        next.until("next");
        watcher.until("next");
        second.kill();
        next.kill();
        assert_eq!(controller::run(["session", "stop", &name]).code, Some(0));
        let watched = watcher.ended();
        assert_eq!(watched.code, Some(0), "{}", watched.stderr);
        assert!(watched.stdout.contains("begun\nend\nOut[") && watched.stdout.contains("42\n"), "{}", watched.stdout);
        assert!(watched.stderr.contains("the session has ended"), "{}", watched.stderr);
    })
    .await;
}

#[tokio::test]
async fn a_result_that_a_command_printed_is_not_there_for_the_next() {
    on(async |lab| {
        let name = lab.start("printed", []);
        // The command ends at once after its last cell: what it owes the bridge must be on its way by then.
        for round in 0..8 {
            let run = controller::run(["run", "--session", &name, "-c", &format!("{round} + 100")]);
            assert_eq!(run.stdout, format!("{}\n", round + 100), "{}", run.stderr);
            let result = controller::run(["session", "result", &name]);
            assert_eq!((result.code, result.stdout.as_str()), (Some(0), ""), "round {round}: {}", result.stderr);
        }
    })
    .await;
}

/// The key signs what the kernel believes. Whoever may not speak to the kernel must not find it.
#[tokio::test]
async fn the_key_is_in_no_label_file_or_log() {
    on(async |lab| {
        let name = lab.start("key", []);
        let session = lab.attach(&name).await;
        let key = session.value("get_ipython().kernel.session.key.decode()").await;
        let key = key.trim_matches('\'').to_owned();
        assert!(key.len() >= 32, "{key}");
        session.detach().await.expect("it lets go");

        let code = "print('x' * 3_000_000)\nprint('\\nbegun', flush=True)\nimport time\ntime.sleep(60)";
        let mut command = controller::cellblock(["-vv", "run", "--session", &name, "-c", code]);
        command.env("CELLBLOCK_LOG", "trace");
        let mut holder = Controller::spawn(command);
        holder.until("begun");
        let inspected = lab.inspect(&name).await;
        assert!(inspected.contains(&name) && !inspected.contains(&key), "a label");
        assert!(!lab.log(&name).await.contains(&key), "the container's log");
        let mut looked_at = 0;
        for file in [runtime_directory(), spill_directory()].iter().flat_map(|directory| files_below(directory)) {
            // Another test's may be gone by now.
            if let Ok(content) = std::fs::read(&file) {
                looked_at += 1;
                assert!(!content.windows(key.len()).any(|part| part == key.as_bytes()), "{}", file.display());
            }
        }
        assert!(looked_at > 1, "locks and long texts are there");
        let process = format!("/proc/{}", holder.pid());
        for file in ["cmdline", "environ"] {
            let content = std::fs::read(format!("{process}/{file}")).expect("it runs");
            assert!(!String::from_utf8_lossy(&content).contains(&key), "{file}");
        }
        holder.signal(Signal::INT);
        let ended = holder.ended();
        assert!(ended.stderr.contains("DEBUG") || ended.stderr.contains("TRACE"), "it logs: {}", ended.stderr);
        assert!(!ended.stderr.contains(&key), "the controller's log");
    })
    .await;
}
