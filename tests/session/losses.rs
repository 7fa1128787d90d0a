//! A half of a cell's end that is lost on its way from the kernel: the call returns in time all the same, and says what is true.

use std::time::Instant;

use cellblock::{LinkPolicy, State, Status};

use crate::lab::{Ask as _, Lab, SOON, tests};
use crate::lossy::{Half, Lossy};

tests! {
    everywhere: [
        a_reply_that_is_lost_on_its_way_costs_nothing,
        an_idle_that_is_lost_on_its_way_costs_nothing,
    ]
}

async fn a_reply_that_is_lost_on_its_way_costs_nothing(lab: &Lab) {
    ends_without(lab, Half::Reply).await;
}

async fn an_idle_that_is_lost_on_its_way_costs_nothing(lab: &Lab) {
    ends_without(lab, Half::Idle).await;
}

async fn ends_without(lab: &Lab, half: Half) {
    let engine = Lossy::new(lab.engine());
    // The timeout would end what hangs as well.
    let builder = lab.builder().engine(engine.clone()).link(LinkPolicy::Relay).timeout(4 * SOON);
    let session = builder.start().await.expect("a session");
    session.good("x = 1").await;
    for code in ["x += 1\nprint('done')\nx", "x += 1\nprint('done')\nraise ValueError('x')"] {
        engine.lose(half);
        let begun = Instant::now();
        let execution = session.cell(code).await;
        assert!(!engine.is_to_lose(), "{half:?} came through");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!((execution.state, execution.rung), (State::Kept, None), "{}", execution.status);
        assert_eq!(execution.stdout.text, "done\n");
        match execution.error() {
            Some(error) => assert_eq!((error.ename.as_str(), error.evalue.as_str()), ("ValueError", "x")),
            None => assert_eq!((&execution.status, execution.text()), (&Status::Ok, Some("2"))),
        }
        assert_eq!(execution.error().is_some(), code.contains("raise"));
        assert!(execution.execution_count.is_some(), "IOPub tells it too");
        // Without the idle nobody knows that nothing came before it.
        assert_eq!(execution.outputs_left_out > 0, half == Half::Idle);
    }
    let begun = Instant::now();
    assert_eq!(session.value("x").await, "3");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    session.stop().await.expect("it stops");
}
