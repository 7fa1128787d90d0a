//! How scripts end, and that nothing of them is left.

use std::time::Duration;

use cellblock::{OnDrop, ScriptEvent, ScriptStatus, Session, Shell, State};
use futures_util::StreamExt as _;

use crate::lab::{Ask as _, Lab, tests, until};
use crate::scripts::{ran, said};

tests! {
    python: [
        a_timeout_ends_everything_that_the_script_started,
        what_ends_at_the_first_signal_is_not_waited_for,
        what_a_script_leaves_behind_ends_with_it,
        output_still_on_its_way_at_the_end_is_not_lost,
        an_interrupted_script_is_ended,
        a_dropped_script_is_ended,
        a_script_dropped_at_once_leaves_nothing,
        a_script_may_be_left_running,
        a_stop_during_a_script_is_an_outcome,
        many_scripts_at_once,
    ]
    container: [
        a_script_that_kills_what_it_runs_under_is_ended,
        a_script_that_stops_what_it_runs_under_is_ended,
        a_script_cannot_read_what_it_runs_under,
        no_process_for_a_script_is_a_clear_error,
        a_script_out_of_memory_leaves_the_kernel_alone,
    ]
}

/// A word in the environment of all that a script starts.
const MARK: &str = "CELLBLOCK_TEST_MARK";

/// What is left of the scripts that were started with this mark.
async fn left(session: &Session, mark: &str) -> String {
    let look = format!(
        "import os\ndef marked(pid):\n    try: return b'{MARK}={mark}' in open(f'/proc/{{pid}}/environ', 'rb').read()\n    \
         except OSError: return False\nfound = [pid for pid in os.listdir('/proc') if pid.isdigit() and marked(pid)]"
    );
    session.good(look).await;
    session.value("found").await
}

async fn a_timeout_ends_everything_that_the_script_started(lab: &Lab) {
    let session = lab.builder().grace(Duration::from_millis(300)).start().await.expect("a session");
    session.good("x = 41").await;
    let script = "trap '' TERM\n\
                  sh -c \"trap '' TERM; while :; do sleep 100; done\" &\n\
                  setsid sh -c \"trap '' TERM; setsid sleep 100 & while :; do sleep 100; done\" &\n\
                  echo begun; while :; do sleep 100; done";
    let mark = lab.name("timeout");
    let call = session.run_shell(script, Shell::Bash).env(MARK, &mark).timeout(Duration::from_secs(1));
    let outcome = call.await.expect("the call goes well");
    assert_eq!((outcome.status.clone(), outcome.exit_code()), (ScriptStatus::TimedOut, 124));
    assert_eq!(outcome.stdout.text, "begun\n");
    assert_eq!(left(&session, &mark).await, "[]");
    assert_eq!(session.value("x + 1").await, "42");
}

async fn what_ends_at_the_first_signal_is_not_waited_for(lab: &Lab) {
    let session = lab.builder().grace(Duration::from_secs(60)).start().await.expect("a session");
    let script = "trap 'echo cleaned; exit 0' TERM; echo begun; sleep 100 & wait";
    let outcome =
        session.run_shell(script, Shell::Bash).timeout(Duration::from_millis(500)).await.expect("the call goes well");
    assert_eq!((outcome.status, outcome.stdout.text.as_str()), (ScriptStatus::TimedOut, "begun\ncleaned\n"));
}

async fn what_a_script_leaves_behind_ends_with_it(lab: &Lab) {
    let session = lab.session().await;
    let mark = lab.name("behind");
    let script = "sleep 100 & setsid sleep 100 > /dev/null 2>&1 & (setsid sleep 100 &) ; exit 5";
    let outcome = session.run_shell(script, Shell::Bash).env(MARK, &mark).await.expect("the call goes well");
    assert_eq!(outcome.status, ScriptStatus::Exited(5));
    assert_eq!(left(&session, &mark).await, "[]");
}

async fn output_still_on_its_way_at_the_end_is_not_lost(lab: &Lab) {
    let session = lab.session().await;
    assert_eq!(said(&session, "exec > >(sleep 0.05; cat); echo last").await, "last\n");
}

/// Runs a script that says when it has begun and ends with its mark.
async fn begun(session: &Session, mark: &str) -> cellblock::ScriptStream {
    let script = "setsid sleep 100 & echo begun; wait; sleep 100";
    let mut stream = session.run_shell(script, Shell::Bash).env(MARK, mark).stream();
    assert!(matches!(stream.next().await, Some(Ok(ScriptEvent::Stdout(_)))));
    stream
}

async fn an_interrupted_script_is_ended(lab: &Lab) {
    let session = lab.session().await;
    let mark = lab.name("interrupt");
    let mut stream = begun(&session, &mark).await;
    stream.interrupt();
    match stream.next().await {
        Some(Ok(ScriptEvent::Done(outcome))) => assert_eq!(outcome.status, ScriptStatus::Interrupted),
        other => panic!("{other:?}"),
    }
    assert_eq!(left(&session, &mark).await, "[]");
}

async fn a_dropped_script_is_ended(lab: &Lab) {
    let session = lab.session().await;
    let mark = lab.name("drop");
    drop(begun(&session, &mark).await);
    until("the script is gone", async || left(&session, &mark).await == "[]").await;
}

async fn a_script_dropped_at_once_leaves_nothing(lab: &Lab) {
    let session = lab.session().await;
    let mark = lab.name("at-once");
    let mut stream = session.run_shell("sleep 100", Shell::Sh).env(MARK, &mark).stream();
    let begun =
        std::future::poll_fn(|context| std::task::Poll::Ready(stream.poll_next_unpin(context).is_ready())).await;
    assert!(!begun);
    drop(stream);
    // One that is sent after it has ended, so the other's request is at its end too.
    said(&session, "sleep 0.2").await;
    until("the script is gone", async || left(&session, &mark).await == "[]").await;
}

async fn a_script_may_be_left_running(lab: &Lab) {
    let session = lab.session().await;
    let script = "echo begun; until test -e go; do sleep 0.01; done; touch done";
    let mut stream = session.run_shell(script, Shell::Sh).on_drop(OnDrop::LeaveRunning).stream();
    assert!(matches!(stream.next().await, Some(Ok(ScriptEvent::Stdout(_)))));
    drop(stream);
    session.good("import os; open('go', 'w').close()").await;
    until("the script is done", async || session.value("os.path.exists('done')").await == "True").await;
}

async fn a_stop_during_a_script_is_an_outcome(lab: &Lab) {
    let session = lab.session().await;
    let mut stream = begun(&session, &lab.name("stop")).await;
    session.stop().await.expect("the call goes well");
    match stream.next().await {
        Some(Ok(ScriptEvent::Done(outcome))) => {
            assert_eq!(outcome.status, ScriptStatus::ContainerGone("the session was stopped".to_owned()));
            assert_eq!(outcome.state, State::ContainerGone);
        }
        other => panic!("{other:?}"),
    }
    let error = session.run_shell("true", Shell::Sh).await.expect_err("the session has ended");
    assert!(error.is_session_gone(), "{error:?}");
}

async fn many_scripts_at_once(lab: &Lab) {
    let session = lab.session().await;
    let scripts = (0..8).map(|number| {
        let session = session.clone();
        async move { said(&session, &format!("echo {number}; sleep 0.05; echo {number}")).await }
    });
    for (number, text) in futures_util::future::join_all(scripts).await.into_iter().enumerate() {
        assert_eq!(text, format!("{number}\n{number}\n"));
    }
}

async fn a_script_that_kills_what_it_runs_under_is_ended(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 41").await;
    let mark = lab.name("kill");
    let script = "setsid sleep 100 & echo begun; kill -KILL $PPID; sleep 100";
    let outcome = session.run_shell(script, Shell::Bash).env(MARK, &mark).await.expect("the call goes well");
    assert!(matches!(outcome.status, ScriptStatus::Lost(_)), "{}", outcome.status);
    assert_eq!(left(&session, &mark).await, "[]");
    assert_eq!(session.value("__import__('glob').glob('/tmp/cellblock-*')").await, "[]");
    assert_eq!(session.value("x + 1").await, "42");
    assert_eq!(said(&session, "echo on").await, "on\n");
}

async fn a_script_that_stops_what_it_runs_under_is_ended(lab: &Lab) {
    let session = lab.builder().grace(Duration::from_millis(300)).start().await.expect("a session");
    let mark = lab.name("stopper");
    let script = "setsid sleep 100 & echo begun; kill -STOP $PPID; sleep 100";
    let call = session.run_shell(script, Shell::Bash).env(MARK, &mark).timeout(Duration::from_secs(1));
    let outcome = call.await.expect("the call goes well");
    assert!(matches!(outcome.status, ScriptStatus::TimedOut), "{}", outcome.status);
    assert_eq!(left(&session, &mark).await, "[]");
    assert_eq!(said(&session, "echo on").await, "on\n");
}

async fn a_script_cannot_read_what_it_runs_under(lab: &Lab) {
    let session = lab.session().await;
    let script = "for file in environ mem maps; do cat /proc/$PPID/$file /proc/1/$file > /dev/null && echo $file; done\n\
                  ls /proc/$PPID/fd && echo fd; ls /proc/1/fd && echo fd; exit 0";
    let outcome = ran(&session, script).await;
    assert_eq!((outcome.stdout.text.as_str(), outcome.status), ("", ScriptStatus::Exited(0)), "{}", outcome.stderr);
    // Nor are its descriptors passed on: the fourth is that of the directory that is listed.
    assert_eq!(said(&session, "exec ls /proc/self/fd | tr '\\n' ' '").await, "0 1 2 3 ");
}

async fn no_process_for_a_script_is_a_clear_error(lab: &Lab) {
    let session = lab.builder().pids(64).start().await.expect("a session");
    let fill = "import subprocess\nheld = []\ntry:\n    while True: held.append(subprocess.Popen(['sleep', '100']))\n\
                except OSError as error: print(error)";
    session.good(fill).await;
    // However far it gets: to the engine's own helpers, to what the script runs under, or to the shell that cannot fork.
    for freed in 0..4 {
        if let Err(error) = session.run_shell("touch ran", Shell::Sh).await {
            assert_eq!(error.ran(), cellblock::Ran::Never, "{error:?}");
            assert!(error.hint().is_some_and(|hint| hint.contains("limit of processes")), "{error:?}");
        }
        assert!(freed > 0 || session.value("__import__('os').path.exists('ran')").await == "False");
        session.good("process = held.pop(); process.kill(); process.wait()").await;
    }
    session.good("for process in held: process.kill(); process.wait()").await;
    assert_eq!(said(&session, "echo on").await, "on\n");
}

async fn a_script_out_of_memory_leaves_the_kernel_alone(lab: &Lab) {
    let session = lab.builder().memory(256 << 20).start().await.expect("a session");
    session.good("x = 41").await;
    let outcome =
        session.run_shell("x = bytearray(1 << 30); print('had it')", "python3").await.expect("the call goes well");
    assert_eq!((outcome.status, outcome.out_of_memory), (ScriptStatus::Signaled(9), true));
    assert_eq!(session.value("x + 1").await, "42");
    assert!(!ran(&session, "true").await.out_of_memory);
}
