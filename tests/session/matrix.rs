//! The ladder as a table: what running out of time costs each kind of code, with its controller there and with nobody.

use std::time::{Duration, Instant};

use cellblock::{Execution, OnDrop, Rung, Session, SessionBuilder, State, Status};

use crate::follow::{Following, until_cell_ended};
use crate::lab::{Ask as _, Lab, tests, until};

tests! {
    python: [
        python_code_is_interrupted,
        python_code_is_interrupted_with_nobody_there,
        code_below_python_is_interrupted,
        code_below_python_is_interrupted_with_nobody_there,
        a_cell_at_its_edges_is_interrupted,
        a_cell_at_its_edges_is_interrupted_with_nobody_there,
        stubborn_code_costs_the_kernel,
        stubborn_code_costs_the_kernel_with_nobody_there,
    ]
    container: [
        a_fork_bomb_leaves_a_session_or_says_why_not,
        a_fork_bomb_with_nobody_there_leaves_a_session_or_says_why_not,
    ]
}

const TIMEOUT: Duration = Duration::from_millis(700);
/// The next cell answers within this.
const SOON: Duration = Duration::from_secs(2);
/// Each rung has its time, or the next one is seen. This is for what hangs, on a machine that stalls.
const HANGS: Duration = Duration::from_secs(30);
/// Of code that is going to end: to write a traceback takes a slow machine a while.
const LONG_GRACE: Duration = Duration::from_secs(4);
/// Of code that is not.
const GRACE: Duration = Duration::from_millis(800);

/// A kind of code.
#[derive(Clone, Copy)]
struct Row {
    what: &'static str,
    code: &'static str,
    /// An expression, and what it is afterwards.
    after: Option<(&'static str, &'static str)>,
}

const fn row(what: &'static str, code: &'static str) -> Row {
    Row { what, code, after: None }
}

/// Interrupts that reach Python's own code.
const PYTHON: [Row; 7] = [
    row("time.sleep", "time.sleep(60)"),
    row("a busy loop", "while True: pass"),
    row("a flood of output", "while True: print('x' * 1000)"),
    row("a top-level await", "await asyncio.sleep(60)"),
    row("input()", "input('? ')"),
    row(
        "a thread that is waited for",
        "thread = threading.Thread(target=time.sleep, args=(60,), daemon=True); thread.start(); thread.join()",
    ),
    row("a lock that nobody gives back", "lock = threading.Lock(); lock.acquire(); lock.acquire()"),
];

/// Code that holds the interpreter's lock, waits for other processes, or is stopped.
const BELOW: [Row; 7] = [
    row("a huge power", "3 ** (10 ** 9)"),
    row("a catastrophic regular expression", "re.match('(a+)+$', 'a' * 60 + 'b')"),
    row("!sleep", "!sleep 60"),
    row("subprocess.run", "subprocess.run(['sleep', '60'])"),
    row("a child that ignores the interrupt", "subprocess.run(['sh', '-c', 'trap \"\" INT; sleep 60'])"),
    row("os.system", "os.system('sleep 60')"),
    row("SIGSTOP to itself", "os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)"),
];

/// Interrupts where a cell is about to end.
const EDGES: [Row; 4] = [
    Row {
        what: "a clean-up, which gets exactly one",
        code: "hits = 0\ntry: time.sleep(60)\nexcept KeyboardInterrupt:\n    hits += 1\n    try: time.sleep(1)\n    \
               except KeyboardInterrupt: hits += 1",
        after: Some(("hits", "1")),
    },
    row("the repr of its result", "class Slow:\n    def __repr__(self): time.sleep(60)\nSlow()"),
    row(
        "a callback after its last line",
        "events = get_ipython().events\ndef slow(*_):\n    events.unregister('post_run_cell', slow)\n    time.sleep(60)\n\
         events.register('post_run_cell', slow)",
    ),
    row(
        "between its last line and its reply, which never comes",
        "kernel = get_ipython().kernel\nsend = kernel.session.send\n\
         def lossy(stream, message, *args, **kwargs):\n    \
         if message != 'execute_reply': return send(stream, message, *args, **kwargs)\n    \
         kernel.session.send = send\nkernel.session.send = lossy\ntime.sleep(60)",
    ),
];

/// Code that will not be told.
const STUBBORN: [Row; 5] = [
    row("KeyboardInterrupt swallowed", "while True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass"),
    row("BaseException swallowed", "while True:\n    try: await asyncio.sleep(60)\n    except BaseException: pass"),
    row("SIGINT ignored", "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"),
    row("C code that looks at no signal", "all(itertools.repeat(True))"),
    row("a clean-up that never ends", "try: time.sleep(60)\nfinally: time.sleep(60)"),
];

/// The kernel's other threads take the signal, and wake the main one where the controller is there and the kernel itself is asked.
const BLOCKED: Row = row("SIGINT blocked", "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); time.sleep(60)");

const IMPORTS: &str = "import asyncio, itertools, os, re, signal, subprocess, threading, time\nkept = 'here'";

/// A code whose beginning can be seen.
fn begun(code: &str) -> String {
    format!("print('begun', flush=True)\n{code}")
}

fn detached(lab: &Lab, grace: Duration) -> SessionBuilder {
    lab.builder().name(lab.name("matrix")).detached(true).grace(grace)
}

/// What is the same for all rows: the status, the state that goes with the rung, and a session that goes on.
async fn is_as_told(session: &Session, row: &Row, execution: &Execution, rung: Rung) {
    let Row { what, after, .. } = row;
    assert_eq!((&execution.status, execution.rung), (&Status::TimedOut, Some(rung)), "{what}: {}", execution.stderr);
    let state = if rung == Rung::Interrupt { State::Kept } else { State::KernelRestarted };
    assert_eq!((execution.state, execution.stdout.text.lines().next()), (state, Some("begun")), "{what}");
    let begun = Instant::now();
    let next = session.cell("1 + 1").await;
    assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
    assert_eq!((next.text(), next.state, next.stderr.text.as_str()), (Some("2"), State::Kept, ""), "{what}");
    assert_eq!(session.value("'kept' in globals()").await == "True", state == State::Kept, "{what}");
    if let Some((expression, value)) = after {
        assert_eq!(session.value(expression).await, *value, "{what}");
    }
}

/// The rows one after the other in one session, the controller being there.
async fn attended(lab: &Lab, rows: &[Row], rung: Rung, grace: Duration) {
    let session = lab.builder().grace(grace).start().await.expect("a session");
    for row in rows {
        session.good(IMPORTS).await;
        let clock = Instant::now();
        let run = session.run(begun(row.code)).timeout(TIMEOUT).stdin(|_| Box::pin(std::future::pending()));
        let execution = run.await.expect("the call goes well");
        assert!(clock.elapsed() < HANGS, "{}: {:?}", row.what, clock.elapsed());
        is_as_told(&session, row, &execution, rung).await;
    }
}

/// The rows one after the other in one session, which is let go as soon as the cell runs.
async fn unattended(lab: &Lab, rows: &[Row], rung: Rung, grace: Duration) {
    let mut session = detached(lab, grace).start().await.expect("a session");
    for row in rows {
        let mut left = None;
        // On a machine that stalls the cell's time can be up before it is let go.
        for _ in 0..4 {
            session = let_go(lab, session, row, rung).await;
            left = session.recovered().await.expect("the session goes on");
            if left.is_some() {
                break;
            }
        }
        is_as_told(&session, row, &left.expect("a result that nobody has had"), rung).await;
    }
}

/// Lets the session go in the middle of a row, and takes hold of it again when that is over.
async fn let_go(lab: &Lab, session: Session, row: &Row, rung: Rung) -> Session {
    session.good(IMPORTS).await;
    let name = session.name().to_owned();
    let kernel = lab.kernel().await;
    let stream = session.run_stream(begun(row.code)).timeout(TIMEOUT).on_drop(OnDrop::LeaveRunning);
    let stream = stream.stdin(|_| Box::pin(std::future::pending()));
    let running = Following::begin(stream).until_printed("begun").await;
    session.detach().await.expect("it lets go");
    drop(running);
    let over = async {
        match rung {
            Rung::Interrupt => until_cell_ended(lab.engine(), &name).await,
            _ => until("its kernel is gone", async || !kernel.exists()).await,
        }
    };
    let in_time = tokio::time::timeout(HANGS, over).await;
    assert!(in_time.is_ok(), "{}: it goes on", row.what);
    Session::attach(&name).engine(lab.engine()).await.expect("it can be held")
}

async fn python_code_is_interrupted(lab: &Lab) {
    attended(lab, &PYTHON, Rung::Interrupt, LONG_GRACE).await;
    attended(lab, &[BLOCKED], Rung::Interrupt, LONG_GRACE).await;
}

async fn python_code_is_interrupted_with_nobody_there(lab: &Lab) {
    unattended(lab, &PYTHON, Rung::Interrupt, LONG_GRACE).await;
}

async fn code_below_python_is_interrupted(lab: &Lab) {
    attended(lab, &BELOW, Rung::Interrupt, LONG_GRACE).await;
}

async fn code_below_python_is_interrupted_with_nobody_there(lab: &Lab) {
    unattended(lab, &BELOW, Rung::Interrupt, LONG_GRACE).await;
}

async fn a_cell_at_its_edges_is_interrupted(lab: &Lab) {
    attended(lab, &EDGES, Rung::Interrupt, LONG_GRACE).await;
}

async fn a_cell_at_its_edges_is_interrupted_with_nobody_there(lab: &Lab) {
    unattended(lab, &EDGES, Rung::Interrupt, LONG_GRACE).await;
}

async fn stubborn_code_costs_the_kernel(lab: &Lab) {
    attended(lab, &STUBBORN, Rung::KernelRestart, GRACE).await;
}

async fn stubborn_code_costs_the_kernel_with_nobody_there(lab: &Lab) {
    unattended(lab, &[&STUBBORN[..], &[BLOCKED]].concat(), Rung::KernelRestart, GRACE).await;
}

/// Its fragments are many processes that all see the interrupt, and nobody can know what comes of them: what it cost is told.
const BOMB: &str = "import os, time\nprint('begun', flush=True)\nwhile True:\n    try:\n        \
                    if os.fork() == 0: time.sleep(600)\n    except OSError: time.sleep(0.01)";

async fn a_fork_bomb_leaves_a_session_or_says_why_not(lab: &Lab) {
    let session = lab.builder().pids(64).grace(GRACE).start().await.expect("a session");
    let execution = session.run(BOMB).timeout(TIMEOUT).await.expect("the call goes well");
    is_disarmed(&session, &execution).await;
}

async fn a_fork_bomb_with_nobody_there_leaves_a_session_or_says_why_not(lab: &Lab) {
    let session = detached(lab, GRACE).pids(64).start().await.expect("a session");
    let stream = session.run_stream(BOMB).timeout(TIMEOUT).on_drop(OnDrop::LeaveRunning);
    let running = Following::begin(stream).until_printed("begun").await;
    session.detach().await.expect("it lets go");
    drop(running);
    // Nothing can be asked meanwhile: the engine cannot start a process in there either.
    tokio::time::sleep(TIMEOUT + GRACE + SOON).await;
    let session = Session::attach(session.name()).engine(lab.engine()).await.expect("it can be held");
    let left = session.recovered().await.expect("the session goes on").expect("a result that nobody has had");
    is_disarmed(&session, &left).await;
}

async fn is_disarmed(session: &Session, execution: &Execution) {
    assert!(matches!(execution.status, Status::TimedOut | Status::KernelDied(_)), "{:?}", execution.status);
    if execution.state == State::ContainerGone {
        assert!(session.run("1").await.expect_err("it is gone").is_session_gone());
        return;
    }
    let begun = Instant::now();
    assert_eq!(session.value("1 + 1").await, "2", "{execution:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    if execution.state == State::Kept {
        session.restart().await.expect("it restarts");
    }
    assert_eq!(session.value("import os\nsum(pid.isdigit() for pid in os.listdir('/proc')) < 10").await, "True");
}
