//! What a cell returns.

use std::time::{Duration, Instant};

use cellblock::{State, Status};

use crate::lab::{Ask as _, Lab, tests};

tests! {
    links: [
        variables_are_kept_between_cells,
        stdout_and_stderr_are_apart_and_in_order,
        an_exception_is_an_outcome_with_its_traceback,
    ]
    everywhere: [
        the_last_expression_is_the_result,
        a_cell_without_a_value_has_no_result,
        cells_are_counted_by_the_kernel,
        a_syntax_error_keeps_the_state,
        time_is_told_and_consistent,
    ]
    python: [
        a_traceback_is_there_with_and_without_colours,
        an_exception_without_a_message_has_an_empty_one,
    ]
    container: [
        usage_of_the_container_is_told,
    ]
}

async fn variables_are_kept_between_cells(lab: &Lab) {
    let session = lab.session().await;
    let first = session.good("x = 20").await;
    assert_eq!((first.status, first.state), (Status::Ok, State::Kept));
    session.good("x += 1").await;
    assert_eq!(session.value("x * 2").await, "42");
}

async fn stdout_and_stderr_are_apart_and_in_order(lab: &Lab) {
    let session = lab.session().await;
    let code =
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three')\nprint('four', file=sys.stderr)";
    let execution = session.good(code).await;
    assert_eq!(execution.stdout.text, "one\nthree\n");
    assert_eq!(execution.stderr.text, "two\nfour\n");
    assert_eq!((execution.stdout.total_bytes, execution.stderr.total_bytes), (10, 9));
    assert!(!execution.stdout.truncated && execution.stdout.spill.is_none() && execution.stdout.spill_bytes.is_none());
    assert_eq!(execution.outputs_left_out, 0);
    // Nothing of it reaches the next cell.
    let next = session.good("x = 1").await;
    assert_eq!((next.stdout.text.as_str(), next.stderr.text.as_str(), next.outputs.len()), ("", "", 0));
}

async fn an_exception_is_an_outcome_with_its_traceback(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 5").await;
    let execution = session.cell("print('before')\nraise ValueError('on purpose')").await;
    let error = execution.error().expect("an error");
    assert_eq!((error.ename.as_str(), error.evalue.as_str()), ("ValueError", "on purpose"));
    assert!(error.traceback.iter().any(|part| part.contains("ValueError")));
    assert_eq!(execution.status.to_string(), "ValueError: on purpose");
    assert_eq!((execution.state, execution.rung), (State::Kept, None));
    assert_eq!(execution.stdout.text, "before\n");
    assert!(!execution.is_ok() && execution.result.is_none());
    let last = execution.outputs.last().expect("outputs");
    assert!(matches!(last, cellblock::Output::Error(shown) if shown == error), "{last:?}");
    assert_eq!(session.value("x").await, "5");
}

async fn the_last_expression_is_the_result(lab: &Lab) {
    let session = lab.session().await;
    let execution = session.good("print('aside')\n'a' + 'b'").await;
    assert_eq!(execution.text(), Some("'ab'"));
    assert_eq!(execution.stdout.text, "aside\n");
    let result = execution.result.as_ref().expect("a result");
    assert_eq!(result.get("text/plain"), Some("'ab'"));
    let [_, cellblock::Output::ExecuteResult { bundle, execution_count }] = execution.outputs.as_slice() else {
        panic!("{:?}", execution.outputs)
    };
    assert_eq!((bundle, *execution_count), (result, execution.execution_count));
}

async fn a_cell_without_a_value_has_no_result(lab: &Lab) {
    let session = lab.session().await;
    for code in ["", "   \n", "# nothing", "x = 1", "pass"] {
        let execution = session.good(code).await;
        assert!(execution.result.is_none() && execution.outputs.is_empty(), "{code:?}: {execution:?}");
    }
}

async fn cells_are_counted_by_the_kernel(lab: &Lab) {
    let session = lab.session().await;
    let first = session.good("1").await.execution_count.expect("a count");
    let second = session.cell("raise ValueError('x')").await.execution_count;
    let third = session.good("3").await.execution_count;
    assert_eq!((second, third), (Some(first + 1), Some(first + 2)));
}

async fn a_syntax_error_keeps_the_state(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 6").await;
    let execution = session.cell("x = = 7").await;
    let error = execution.error().expect("an error");
    assert_eq!(error.ename, "SyntaxError");
    assert_eq!((execution.state, execution.rung), (State::Kept, None));
    assert_eq!(session.value("x").await, "6");
}

async fn time_is_told_and_consistent(lab: &Lab) {
    let session = lab.session().await;
    let begun = Instant::now();
    let timing = session.good("import time\ntime.sleep(0.3)").await.timing;
    let elapsed = begun.elapsed();
    let kernel = timing.kernel.expect("the kernel tells");
    assert!(kernel >= Duration::from_millis(300), "{timing:?}");
    assert!(timing.queued + kernel <= timing.total, "{timing:?}");
    assert!(timing.total <= elapsed, "{timing:?} of {elapsed:?}");

    // What waits behind a cell is queued for as long as that takes.
    let (_, second) = tokio::join!(async { session.good("import time\ntime.sleep(0.5)").await }, async {
        session.good("x = 1").await
    });
    assert!(second.timing.queued >= Duration::from_millis(400), "{:?}", second.timing);
    let kernel = second.timing.kernel.expect("the kernel tells");
    assert!(second.timing.queued + kernel <= second.timing.total, "{:?}", second.timing);
}

async fn a_traceback_is_there_with_and_without_colours(lab: &Lab) {
    let session = lab.session().await;
    let execution = session.cell("def inner():\n    return 1 / 0\n\ninner()").await;
    let error = execution.error().expect("an error");
    assert_eq!(error.ename, "ZeroDivisionError");
    let (coloured, plain) = (error.traceback.join("\n"), error.traceback_plain().join("\n"));
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    for expected in
        ["Traceback (most recent call last)", "inner()", "return 1 / 0", "ZeroDivisionError: division by zero"]
    {
        assert!(plain.contains(expected), "{expected:?} is not in {plain}");
    }
}

async fn an_exception_without_a_message_has_an_empty_one(lab: &Lab) {
    let session = lab.session().await;
    let execution = session.cell("class Odd(Exception): pass\nraise Odd").await;
    let error = execution.error().expect("an error");
    assert_eq!((error.ename.as_str(), error.evalue.as_str(), error.to_string().as_str()), ("Odd", "", "Odd"));
    // An exception may even fail to say what it is.
    let execution = session
        .cell("class Worse(Exception):\n    def __str__(self): raise ValueError('no name')\nraise Worse()")
        .await;
    assert!(matches!(execution.status, Status::Error(_)), "{:?}", execution.status);
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn usage_of_the_container_is_told(lab: &Lab) {
    let session = lab.session().await;
    let code = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nblock = bytearray(50_000_000)";
    let usage = session.good(code).await.usage;
    let cpu = usage.cpu.expect("CPU time is told");
    assert!(cpu >= Duration::from_millis(250) && cpu < Duration::from_secs(5), "{usage:?}");
    let (memory, peak) = (usage.memory.expect("memory"), usage.memory_peak.expect("its peak"));
    assert!(memory > 50_000_000 && memory <= peak && peak <= 1 << 30, "{usage:?}");
    let idle = session.good("x = 1").await.usage.cpu.expect("CPU time is told");
    assert!(idle < cpu, "{idle:?} is of one call");
}
