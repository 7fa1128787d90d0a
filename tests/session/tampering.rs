//! What code in the container does to the bridge, whose user it shares: the session goes on, or ends and says why. It never hangs.

use std::error::Error as _;
use std::time::Duration;

use bollard::query_parameters::LogsOptionsBuilder;
use cellblock::{LinkPolicy, Rung, Session, Shell, State, Status};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::lab::{Ask as _, Lab, tests};

tests! {
    python_links: [
        a_kernel_that_stops_and_goes_on_all_the_time_keeps_its_session,
    ]
    container: [
        what_is_done_to_the_bridge_costs_no_more_than_the_session,
        what_is_done_to_the_bridge_over_a_relay_costs_no_more_than_the_session,
        what_is_done_to_the_bridge_while_a_kernel_starts_costs_no_more_than_the_session,
    ]
}

enum Expect {
    GoesOn,
    /// One of the texts is part of the reason.
    Ends(&'static [&'static str]),
}
use Expect::{Ends, GoesOn};

const STUBBORN: &str = "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: pass";

/// Where the engine is slow to tell how the container ended.
const UNTOLD: &str = "could not be restarted";

const TAMPERING: [(&str, Expect, &str); 15] = [
    ("closes its directory", GoesOn, "os.chmod(run, 0)"),
    ("removes its sockets", GoesOn, "for name in os.listdir(run): os.unlink(run + name)"),
    (
        "takes its inodes",
        GoesOn,
        "for name in os.listdir(run): os.unlink(run + name)\nfor i in range(99): open(f'{run}x{i}', 'w')",
    ),
    ("takes its inodes with directories", GoesOn, "for i in range(99): os.mkdir(f'{run}k9{i}-1')"),
    ("takes its bytes", GoesOn, "open(run + 'x', 'wb').write(bytes(2 << 20))"),
    (
        "puts other files in the place of sockets",
        GoesOn,
        "for i in '12345': os.mkdir(f'{run}k999-{i}')\nopen(run + 'kx-1', 'w')",
    ),
    ("fills /tmp", GoesOn, "open('/tmp/x', 'wb').write(bytes(1 << 28))"),
    ("fills /dev/shm", GoesOn, "open('/dev/shm/x', 'wb').write(bytes(1 << 28))"),
    (
        "dials without end",
        GoesOn,
        "import socket\nheld = [socket.socket(socket.AF_UNIX) for _ in range(500)]\nfor one in held: one.setblocking(False); one.connect(run + 'bridge.sock')",
    ),
    ("sends every signal but one", GoesOn, "for number in range(1, 65):\n    if number != 15: os.kill(1, number)"),
    ("kills all that it can", GoesOn, "os.kill(-1, 9)"),
    ("asks it to end", Ends(&["was shut down", UNTOLD]), "os.kill(1, 15)"),
    (
        "takes its descriptors",
        Ends(&["cannot be ended", "descriptors"]),
        "resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
    ),
    ("takes its memory", Ends(&["allocate memory"]), "resource.prlimit(1, resource.RLIMIT_AS, (1, 1))"),
    ("takes its time", Ends(&["was killed", UNTOLD]), "resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))"),
];

/// Collects what PID 1 writes, until it ends.
fn log(lab: &Lab, session: &Session) -> JoinHandle<String> {
    let created = lab.fixture().recording().created();
    let name = session.name().to_owned();
    let (id, _) = created.into_iter().find(|(_, spec)| spec.name.ends_with(&name)).expect("its container");
    let client = lab.fixture().bollard();
    tokio::spawn(async move {
        let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).build();
        let parts = client.logs(&id.0, Some(options)).filter_map(async |part| part.ok().map(|part| part.to_string()));
        parts.collect().await
    })
}

/// Why the session has ended.
async fn reason(session: &Session) -> String {
    let error = session.run("1").await.expect_err("it has ended");
    assert!(error.is_session_gone(), "{error:?}");
    error.source().map(ToString::to_string).unwrap_or_default()
}

async fn play(lab: &Lab, link: LinkPolicy, (what, expect, code): &(&str, Expect, &str)) {
    let session = lab.builder().link(link).grace(Duration::from_millis(200)).start().await.expect("a session");
    let log = log(lab, &session);
    let tampering = format!(
        "import os, resource\nrun = '/run/cellblock/'\ndef tamper():\n    {}\ntry: tamper()\nexcept OSError: pass",
        code.replace('\n', "\n    ")
    );
    let _ = session.run(tampering).await;
    // Another cell runs, and the kernel is replaced.
    let overdue = session.run(STUBBORN).timeout(Duration::from_millis(300)).await;
    match expect {
        GoesOn => {
            let overdue = overdue.expect("the call goes well");
            // Without its keeper a kernel is ended, which may come only now.
            let ended = matches!(overdue.status, Status::KernelDied(_)) || overdue.rung == Some(Rung::KernelRestart);
            assert!(ended && overdue.state == State::KernelRestarted, "{what}: {} {:?}", overdue.status, overdue.rung);
            assert_eq!(session.value("20 + 22").await, "42", "{what}");
            session.stop().await.expect("it stops");
        }
        Ends(expected) => {
            let reason = reason(&session).await;
            assert!(expected.iter().any(|text| reason.contains(text)), "{what}: {reason}");
        }
    }
    let log = log.await.expect("a log");
    assert!(log.lines().count() <= 1 && !log.contains("Traceback"), "{what}: {log}");
}

async fn play_all(lab: &Lab, link: LinkPolicy) {
    for some in TAMPERING.chunks(4) {
        join_all(some.iter().map(|row| play(lab, link, row))).await;
    }
}

async fn what_is_done_to_the_bridge_costs_no_more_than_the_session(lab: &Lab) {
    play_all(lab, LinkPolicy::Auto).await;
}

async fn what_is_done_to_the_bridge_over_a_relay_costs_no_more_than_the_session(lab: &Lab) {
    play_all(lab, LinkPolicy::Relay).await;
}

async fn what_is_done_to_the_bridge_while_a_kernel_starts_costs_no_more_than_the_session(lab: &Lab) {
    for link in [LinkPolicy::Auto, LinkPolicy::Relay] {
        let session = lab.builder().link(link).start().await.expect("a session");
        let log = log(lab, &session);
        let script = "cd /run/cellblock; while :; do chmod 0 .; chmod 700 .; : > x$RANDOM; mkdir k$RANDOM-1; rm k*-3; done 2> /dev/null";
        let tampering = session.run_shell(script, Shell::Bash).timeout(Duration::from_secs(60)).into_future();
        let restarts = async {
            for _ in 0..10 {
                if let Err(error) = session.restart().await {
                    let reason = reason(&session).await;
                    assert!(reason.contains("could not be restarted"), "{error:?}: {reason}");
                    return;
                }
            }
            session.stop().await.expect("it stops");
        };
        let _ = tokio::join!(tampering, restarts);
        let log = log.await.expect("a log");
        let of_kernels = log.matches("return launcher.main(spec)").count();
        assert_eq!(log.matches("Traceback").count(), of_kernels, "{log}");
    }
}

async fn a_kernel_that_stops_and_goes_on_all_the_time_keeps_its_session(lab: &Lab) {
    let session = lab.session().await;
    session.good("import os, subprocess, sys\nme = os.getpid()").await;
    let storm = "f'import os\\nfor _ in range(5000): os.kill({me}, 19); os.kill({me}, 18)'";
    session.good(format!("subprocess.run([sys.executable, '-c', {storm}])\nx = 1")).await;
    assert_eq!(session.value("x").await, "1", "with all that it knew");
}
