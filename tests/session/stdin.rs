//! `input()` and `getpass()`: answered, or refused at once.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cellblock::{Event, Session, State, StdinRequest};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;

use crate::lab::{Ask as _, Lab, SOON, tests};

tests! {
    links: [
        input_is_answered,
        input_that_is_refused_is_an_end_of_file_at_once,
    ]
    everywhere: [
        a_password_is_asked_for_as_one,
        an_answer_of_none_is_an_end_of_file,
    ]
    python: [
        answers_come_as_they_were_given,
        a_stream_answers_too,
        an_end_of_file_is_an_exception_that_can_be_caught,
        late_answers_are_waited_for,
        the_cell_after_an_unanswered_question_asks_its_own,
        programs_without_a_terminal_read_an_end_of_file,
    ]
}

type Answer = BoxFuture<'static, Option<String>>;
type Seen = Arc<Mutex<Vec<StdinRequest>>>;

/// Answers with these lines, in order, and notes the requests.
fn answers<const N: usize>(lines: [&'static str; N]) -> (Seen, impl FnMut(StdinRequest) -> Answer + Send + use<N>) {
    let seen = Seen::default();
    let (log, mut lines) = (Arc::clone(&seen), lines.into_iter());
    let answer = move |request| -> Answer {
        log.lock().expect("no panic").push(request);
        Box::pin(std::future::ready(lines.next().map(str::to_owned)))
    };
    (seen, answer)
}

async fn input_is_answered(lab: &Lab) {
    let session = lab.session().await;
    let (seen, answer) = answers(["Ada", "Lovelace"]);
    let code = "first = input('First? ')\nlast = input('Last? ')\nfirst + ' ' + last";
    let execution = session.run(code).stdin(answer).await.expect("the call goes well");
    assert_eq!(execution.text(), Some("'Ada Lovelace'"), "{}", execution.status);
    let seen = seen.lock().expect("no panic");
    let prompts: Vec<_> = seen.iter().map(|request| (request.prompt.as_str(), request.password)).collect();
    assert_eq!(prompts, [("First? ", false), ("Last? ", false)]);
}

async fn input_that_is_refused_is_an_end_of_file_at_once(lab: &Lab) {
    let session = lab.session().await;
    let begun = Instant::now();
    for code in ["input('? ')", "import getpass\ngetpass.getpass('? ')"] {
        let execution = session.cell(code).await;
        assert_eq!(execution.error().map(|error| error.ename.as_str()), Some("EOFError"), "{}", execution.status);
        assert_eq!(execution.state, State::Kept);
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn a_password_is_asked_for_as_one(lab: &Lab) {
    let session = lab.session().await;
    let (seen, answer) = answers(["secret"]);
    let code = "import getpass\ngetpass.getpass('Password: ')";
    let execution = session.run(code).stdin(answer).await.expect("the call goes well");
    assert_eq!(execution.text(), Some("'secret'"), "{}", execution.status);
    let seen = seen.lock().expect("no panic");
    assert!(seen.len() == 1 && seen[0].password && seen[0].prompt.contains("Password: "), "{seen:?}");
}

async fn an_answer_of_none_is_an_end_of_file(lab: &Lab) {
    let session = lab.session().await;
    let (_, answer) = answers(["one"]);
    let execution = session.run("a = input('1')\nb = input('2')").stdin(answer).await.expect("the call goes well");
    assert_eq!(execution.error().map(|error| error.ename.as_str()), Some("EOFError"), "{}", execution.status);
    assert_eq!(session.value("a").await, "'one'");
}

async fn answers_come_as_they_were_given(lab: &Lab) {
    let session = lab.session().await;
    for line in ["", " spaced ", "日本語 👩‍👩‍👧", "quote ' and \" and \\n", "\t", "x\ry"] {
        let (_, answer) = answers([line]);
        let execution = session.run("line = input()").stdin(answer).await.expect("the call goes well");
        assert!(execution.is_ok(), "{line:?}: {}", execution.status);
        let told = session.good("print(line, end='')").await;
        assert_eq!(told.stdout.text, line);
    }
}

async fn a_stream_answers_too(lab: &Lab) {
    let session = lab.session().await;
    let (_, answer) = answers(["yes"]);
    let mut stream = session.run_stream("print('before')\nprint(input('? '))").stdin(answer);
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        match event.expect("the call goes well") {
            Event::Stdout(part) => text.push_str(&part),
            Event::Done(execution) => assert!(execution.is_ok(), "{}", execution.status),
            _ => {}
        }
    }
    assert_eq!(text, "before\nyes\n");
}

async fn an_end_of_file_is_an_exception_that_can_be_caught(lab: &Lab) {
    let session = lab.session().await;
    let code = "try: input('? ')\nexcept EOFError: print('nobody there')\n'went on'";
    let execution = session.good(code).await;
    assert_eq!((execution.stdout.text.as_str(), execution.text()), ("nobody there\n", Some("'went on'")));
    let code = "lines = []\nwhile True:\n    try: lines.append(input())\n    except EOFError: break\nlen(lines)";
    assert_eq!(session.value(code).await, "0");
}

async fn late_answers_are_waited_for(lab: &Lab) {
    let session = lab.session().await;
    let run = session.run("input('? ')").stdin(|_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            Some("late".to_owned())
        })
    });
    assert_eq!(run.await.expect("the call goes well").text(), Some("'late'"));
}

async fn the_cell_after_an_unanswered_question_asks_its_own(lab: &Lab) {
    let session = lab.session().await;
    unanswered(&session).await;
    let (seen, answer) = answers(["mine"]);
    let execution = session.run("input('second? ')").stdin(answer).await.expect("the call goes well");
    assert_eq!(execution.text(), Some("'mine'"), "{}", execution.status);
    assert_eq!(seen.lock().expect("no panic")[0].prompt, "second? ");
}

async fn unanswered(session: &Session) {
    let run = session.run("input('first? ')").timeout(Duration::from_millis(300));
    let execution = run.stdin(|_| Box::pin(std::future::pending())).await.expect("the call goes well");
    assert_eq!(execution.status, cellblock::Status::TimedOut);
}

async fn programs_without_a_terminal_read_an_end_of_file(lab: &Lab) {
    let session = lab.session().await;
    let begun = Instant::now();
    assert_eq!(session.value("import subprocess\nsubprocess.run(['cat']).returncode").await, "0");
    assert_eq!(session.value("import os\nos.read(0, 10)").await, "b''");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
