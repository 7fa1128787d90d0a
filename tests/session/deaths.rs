//! Kernels and containers that end, each named for what it was.

use std::time::Instant;

use cellblock::{Death, Execution, Ran, State, Status};

use crate::follow::Following;
use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    links: [
        an_exit_of_the_kernel_is_named_and_the_next_cell_runs,
        a_container_killed_from_outside_is_noticed,
    ]
    python: [
        what_was_printed_before_the_death_is_there,
        files_are_kept_when_the_kernel_dies,
        a_signal_is_named,
        a_kernel_that_dies_again_and_again_is_replaced_each_time,
        sys_exit_is_an_exception_like_any_other,
        exit_ends_the_kernel_and_the_next_cell_says_so,
        a_kernel_lost_between_cells_is_told_by_the_next,
        a_cell_that_has_ended_when_its_kernel_dies_is_told_as_ended,
        cells_that_waited_run_in_the_new_kernel,
        children_of_a_dead_kernel_are_gone,
        a_session_whose_container_went_between_cells_is_gone,
    ]
    container: [
        a_memory_hog_is_named,
        a_child_out_of_memory_leaves_the_kernel,
        a_child_out_of_memory_is_not_the_death_of_a_later_cell,
        a_removed_container_is_noticed,
        a_full_workspace_is_an_error_in_the_code,
        a_full_tmp_leaves_the_session_alive,
    ]
}

fn death(execution: &Execution) -> &Death {
    match &execution.status {
        Status::KernelDied(death) => death,
        other => panic!("{other:?}"),
    }
}

async fn an_exit_of_the_kernel_is_named_and_the_next_cell_runs(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    let begun = Instant::now();
    let execution = session.cell("import os\nos._exit(3)").await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let death = death(&execution);
    assert_eq!((death.code, death.signal, death.out_of_memory), (Some(3), None, false));
    assert_eq!(
        (death.reason.as_deref(), execution.status.to_string().as_str()),
        (None, "the kernel died: exit code 3")
    );
    assert_eq!((execution.state, execution.rung), (State::KernelRestarted, None));
    let gone = session.cell("x").await;
    assert_eq!(gone.error().map(|error| error.ename.as_str()), Some("NameError"));
    assert_eq!(gone.state, State::Kept, "the restart was told by the cell before");
    assert_eq!(session.value("20 + 22").await, "42");
    assert_eq!(lab.fixture().recording().created().len(), 1, "the container is the same");
}

async fn what_was_printed_before_the_death_is_there(lab: &Lab) {
    let session = lab.session().await;
    let code = "import os\nprint('x' * 100_000)\nprint('last words')\nos._exit(1)";
    let execution = session.cell(code).await;
    assert_eq!(death(&execution).code, Some(1));
    assert!(execution.stdout.text.ends_with("x\nlast words\n"), "{:?}", execution.stdout.total_bytes);
    assert_eq!(execution.stdout.total_bytes, 100_012);
}

async fn files_are_kept_when_the_kernel_dies(lab: &Lab) {
    let session = lab.session().await;
    session.good("with open('kept.txt', 'w') as file: file.write('here')\nNone").await;
    let execution = session.cell("import os\nos._exit(0)").await;
    assert_eq!((death(&execution).code, execution.state), (Some(0), State::KernelRestarted));
    assert_eq!(session.value("open('kept.txt').read()").await, "'here'");
}

async fn a_signal_is_named(lab: &Lab) {
    let session = lab.session().await;
    let codes = [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 9),
        ("import ctypes\nctypes.string_at(0)", 11),
        ("import os\nos.abort()", 6),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time\ntime.sleep(10)", 15),
    ];
    for (code, signal) in codes {
        let begun = Instant::now();
        let execution = session.cell(code).await;
        assert!(begun.elapsed() < SOON, "{signal}: {:?}", begun.elapsed());
        let death = death(&execution);
        assert_eq!((death.code, death.signal, death.out_of_memory), (None, Some(signal), false), "{code}");
        assert_eq!(execution.state, State::KernelRestarted);
    }
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn a_kernel_that_dies_again_and_again_is_replaced_each_time(lab: &Lab) {
    let session = lab.session().await;
    for code in 1..=8 {
        let execution = session.cell(format!("import os\nos._exit({code})")).await;
        assert_eq!(death(&execution).code, Some(code));
    }
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn sys_exit_is_an_exception_like_any_other(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    let execution = session.cell("import sys\nsys.exit(3)").await;
    assert_eq!(execution.error().map(|error| error.ename.as_str()), Some("SystemExit"), "{}", execution.status);
    assert_eq!(execution.state, State::Kept);
    assert_eq!(session.value("x").await, "1");
}

async fn exit_ends_the_kernel_and_the_next_cell_says_so(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    // ipykernel goes on for a moment before it ends.
    let exit = session.cell("exit()").await;
    let told = if exit.state == State::Kept { lost(&session).await } else { exit };
    assert_eq!(told.state, State::KernelRestarted);
    assert_eq!(session.value("'x' in globals()").await, "False");
    assert_eq!(session.good("pass").await.state, State::Kept);
}

async fn a_kernel_lost_between_cells_is_told_by_the_next(lab: &Lab) {
    let session = lab.session().await;
    let code = "import os, subprocess\npid = os.getpid()\n\
                killer = subprocess.Popen(['sh', '-c', f'while [ ! -e go ]; do sleep 0.05; done; kill -9 {pid}'])";
    session.good(code).await;
    let told = session.cell("open('go', 'w').close()\nimport time\ntime.sleep(0)").await;
    let next = if told.state == State::Kept { lost(&session).await } else { told };
    assert_eq!(next.state, State::KernelRestarted);
    assert_eq!(session.good("pass").await.state, State::Kept);
}

async fn a_cell_that_has_ended_when_its_kernel_dies_is_told_as_ended(lab: &Lab) {
    let session = lab.session().await;
    for _ in 0..4 {
        let code = "import os\nx = 1\nkernel = get_ipython().kernel\ntell = kernel._publish_status\n\
                    def tell_and_end(status, *rest, **more):\n    \
                    tell(status, *rest, **more)\n    if status == 'idle': os._exit(3)\n\
                    kernel._publish_status = tell_and_end\nprint('last')\n40 + 2";
        let ended = session.cell(code).await;
        assert_eq!((&ended.status, ended.stdout.text.as_str(), ended.text()), (&Status::Ok, "last\n", Some("42")));
        let told = if ended.state == State::Kept { lost(&session).await } else { ended };
        assert_eq!(told.state, State::KernelRestarted);
        assert_eq!(session.value("'x' in globals()").await, "False");
    }
}

/// Asks until the answer is that of another kernel.
async fn lost(session: &cellblock::Session) -> Execution {
    for _ in 0..1000 {
        let execution = session.cell("pid = 'pid' in globals() and pid").await;
        if execution.state != State::Kept {
            return execution;
        }
    }
    panic!("the kernel lives");
}

async fn cells_that_waited_run_in_the_new_kernel(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    let (dying, waiting) =
        tokio::join!(async { session.cell("import os, time\ntime.sleep(0.3)\nos._exit(4)").await }, async {
            session.cell("'x' in globals()").await
        });
    assert_eq!(death(&dying).code, Some(4));
    assert_eq!((waiting.text(), waiting.state), (Some("False"), State::Kept), "{}", waiting.status);
}

async fn children_of_a_dead_kernel_are_gone(lab: &Lab) {
    let session = lab.session().await;
    let code = "import os, subprocess\nchild = subprocess.Popen(['sleep', '4321'], start_new_session=True)\n\
                with open('child', 'w') as file: file.write(str(child.pid))\nos._exit(1)";
    assert_eq!(death(&session.cell(code).await).code, Some(1));
    assert_eq!(session.value("import os\nos.path.exists('/proc/' + open('child').read())").await, "False");
}

async fn a_container_killed_from_outside_is_noticed(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, "print('begun', flush=True)\nimport time\ntime.sleep(60)", "begun").await;
    let begun = Instant::now();
    lab.engine().kill(&lab.fixture().recording().only()).await.expect("it is killed");
    let execution = running.finish().await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let Status::ContainerGone(how) = &execution.status else { panic!("{:?}", execution.status) };
    assert!(!how.is_empty());
    assert_eq!((execution.state, execution.stdout.text.as_str()), (State::ContainerGone, "begun\n"));
    is_gone(&session).await;
}

async fn a_removed_container_is_noticed(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, "print('begun', flush=True)\nimport time\ntime.sleep(60)", "begun").await;
    let begun = Instant::now();
    lab.engine().remove(&lab.fixture().recording().only()).await.expect("it is removed");
    let execution = running.finish().await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(matches!(execution.status, Status::ContainerGone(_)), "{:?}", execution.status);
    is_gone(&session).await;
}

async fn a_session_whose_container_went_between_cells_is_gone(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 1").await;
    lab.engine().kill(&lab.fixture().recording().only()).await.expect("it is killed");
    // The first call may still find the session half there, and must say so truthfully.
    match session.run("x").await {
        Ok(execution) => assert_eq!(execution.state, State::ContainerGone, "{:?}", execution.status),
        Err(error) => assert!(error.is_session_gone() && error.ran() == Ran::Never, "{error:?}"),
    }
    is_gone(&session).await;
}

async fn is_gone(session: &cellblock::Session) {
    let error = session.run("1 + 1").await.expect_err("the session is gone");
    assert!(error.is_session_gone(), "{error:?}");
    assert_eq!(error.ran(), Ran::Never);
    assert!(std::error::Error::source(&error).is_some(), "it says how: {error:?}");
}

async fn a_memory_hog_is_named(lab: &Lab) {
    let session = lab.builder().memory(200 << 20).start().await.expect("a session");
    session.good("with open('kept.txt', 'w') as file: file.write('here')\nNone").await;
    let execution = session.cell("hog = b'x' * (1 << 30)").await;
    let death = death(&execution);
    assert!(death.out_of_memory, "{death:?}");
    assert_eq!((death.signal, execution.state), (Some(9), State::KernelRestarted));
    assert_eq!(execution.status.to_string(), "the kernel died: out of memory");
    assert_eq!(session.value("open('kept.txt').read()").await, "'here'");
    // A kill that the code did itself is not the memory's.
    let killed = session.cell("import os\nos.kill(os.getpid(), 9)").await;
    assert!(matches!(&killed.status, Status::KernelDied(death) if !death.out_of_memory), "{:?}", killed.status);
}

async fn a_child_out_of_memory_leaves_the_kernel(lab: &Lab) {
    let session = lab.builder().memory(200 << 20).start().await.expect("a session");
    session.good("x = 1").await;
    let code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', \"x = b'x' * (1 << 30)\"]).returncode";
    let execution = session.cell(code).await;
    assert_eq!((execution.text(), execution.state), (Some("-9"), State::Kept), "{}", execution.status);
    assert_eq!(session.value("x").await, "1");
}

async fn a_child_out_of_memory_is_not_the_death_of_a_later_cell(lab: &Lab) {
    let session = lab.builder().memory(200 << 20).start().await.expect("a session");
    let code =
        "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', \"x = b'x' * (1 << 30)\"]).returncode";
    assert_eq!(session.value(code).await, "-9");
    let killed = session.cell("os.kill(os.getpid(), 9)").await;
    assert_eq!((death(&killed).signal, death(&killed).out_of_memory), (Some(9), false));
}

async fn a_full_workspace_is_an_error_in_the_code(lab: &Lab) {
    let small = cellblock::Workspace::Memory(2 << 20);
    let session = lab.builder().workspace(small).start().await.expect("a session");
    let execution = session.cell("with open('big', 'wb') as file: file.write(b'x' * (4 << 20))").await;
    let error = execution.error().expect("an exception");
    assert!(error.evalue.contains("No space left"), "{error:?}");
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn a_full_tmp_leaves_the_session_alive(lab: &Lab) {
    let session = lab.session().await;
    let code = "with open('/tmp/big', 'wb') as file:\n    while True: file.write(b'x' * (1 << 20))";
    let execution = session.cell(code).await;
    assert!(execution.error().is_some_and(|error| error.evalue.contains("No space left")), "{}", execution.status);
    assert_eq!(session.value("1 + 1").await, "2");
    session.restart().await.expect("a full /tmp does not stop a restart");
    assert_eq!(session.value("1 + 1").await, "2");
}
