//! What the kernel is asked besides running code.

use std::time::Instant;

use cellblock::{Completeness, Ran};

use crate::follow::Following;
use crate::lab::{Ask as _, Lab, tests};

tests! {
    links: [
        names_are_completed,
    ]
    everywhere: [
        complete_and_incomplete_code_is_told_apart,
        questions_count_no_cells,
    ]
    python: [
        completion_counts_code_points,
    ]
    process: [
        a_question_while_a_cell_runs_is_bounded,
    ]
}

async fn names_are_completed(lab: &Lab) {
    let session = lab.session().await;
    session.good("alpha_one = 1\nalpha_two = 2").await;
    let completion = session.complete("alpha_", 6).await.expect("an answer");
    for name in ["alpha_one", "alpha_two"] {
        assert!(completion.matches.iter().any(|one| one == name), "{completion:?}");
    }
    assert_eq!((completion.start, completion.end), (0, 6));
    let nothing = session.complete("no_such_name_at_all", 19).await.expect("an answer");
    assert!(nothing.matches.is_empty(), "{nothing:?}");
    session.complete("", 0).await.expect("an answer");
}

async fn completion_counts_code_points(lab: &Lab) {
    let session = lab.session().await;
    session.good("alpha_one = 1").await;
    let code = "x = '💡é'; alpha_";
    let cursor = code.chars().count();
    let completion = session.complete(code, cursor).await.expect("an answer");
    assert!(completion.matches.iter().any(|one| one == "alpha_one"), "{completion:?}");
    assert_eq!((completion.start, completion.end), (cursor - 6, cursor));
    // A cursor beyond the end is nobody's harm.
    let _ = session.complete("alp", 3000).await;
    assert_eq!(session.value("alpha_one").await, "1");
}

async fn complete_and_incomplete_code_is_told_apart(lab: &Lab) {
    let session = lab.session().await;
    let ask = async |code| session.is_complete(code).await.expect("an answer");
    assert_eq!(ask("x = 1").await, Completeness::Complete);
    assert_eq!(ask("for i in range(3):").await, Completeness::Incomplete { indent: "    ".to_owned() });
    assert_eq!(ask("x = = 1").await, Completeness::Invalid);
}

async fn questions_count_no_cells(lab: &Lab) {
    let session = lab.session().await;
    let first = session.good("1").await.execution_count.expect("a count");
    for _ in 0..3 {
        session.complete("pri", 3).await.expect("an answer");
        session.is_complete("x = 1").await.expect("an answer");
    }
    assert_eq!(session.good("2").await.execution_count, Some(first + 1));
}

async fn a_question_while_a_cell_runs_is_bounded(lab: &Lab) {
    let session = lab.session().await;
    let running = Following::until(&session, "print('begun', flush=True)\nimport time\ntime.sleep(60)", "begun").await;
    let begun = Instant::now();
    // It is answered after the cell, or not in time; it never hangs.
    let asked = session.complete("pri", 3).await;
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
    if let Err(error) = asked {
        assert!(error.ran() == Ran::Never && !error.is_session_gone(), "{error:?}");
    }
    session.interrupt().await.expect("it is taken");
    assert_eq!(running.finish().await.stdout.text, "begun\n");
    assert!(session.complete("pri", 3).await.is_ok_and(|completion| !completion.matches.is_empty()));
}
