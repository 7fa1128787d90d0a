//! A cell as a stream of events.

use std::future::IntoFuture as _;

use cellblock::{Event, RunStream, Status};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::lab::{Ask as _, Lab, tests};

tests! {
    links: [
        events_come_in_order_and_done_is_the_last,
        events_come_while_the_cell_runs,
    ]
    everywhere: [
        a_stream_that_is_never_polled_never_runs,
        an_error_is_an_event_before_done,
    ]
    python: [
        updates_and_clears_are_events,
        a_death_is_told_by_done,
        the_events_text_is_the_executions_text,
        events_and_executions_are_json,
    ]
}

async fn all(mut stream: RunStream) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event.expect("the call goes well"));
    }
    assert!(stream.next().await.is_none() && stream.next().await.is_none(), "the end is the end");
    events
}

/// What kind of event it is, and its text.
fn shape(event: &Event) -> (String, String) {
    let json = json!(event);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let text = text(&json["text"]).or_else(|| text(&json["data"]["text/plain"])).or_else(|| text(&json["ename"]));
    (json["event"].as_str().expect("a name").to_owned(), text.unwrap_or_default())
}

fn shapes(events: &[Event]) -> Vec<(String, String)> {
    events.iter().map(shape).collect()
}

fn pair(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

async fn events_come_in_order_and_done_is_the_last(lab: &Lab) {
    let session = lab.session().await;
    let code = "import sys\nprint('a')\ndisplay('b')\nprint('c', file=sys.stderr)\ndisplay('d')\n'e'";
    let events = all(session.run_stream(code)).await;
    let expected = [
        pair("started", ""),
        pair("stdout", "a\n"),
        pair("display", "'b'"),
        pair("stderr", "c\n"),
        pair("display", "'d'"),
        pair("result", "'e'"),
        pair("done", ""),
    ];
    assert_eq!(shapes(&events), expected);
    let (Some(Event::Started { execution_count: first }), Some(Event::Done(done))) = (events.first(), events.last())
    else {
        panic!("{events:?}")
    };
    assert_eq!((done.status.clone(), done.execution_count), (Status::Ok, *first));
    assert!(first.is_some());
}

async fn events_come_while_the_cell_runs(lab: &Lab) {
    let session = lab.session().await;
    let (answer, wait) = tokio::sync::oneshot::channel();
    let mut wait = Some(wait);
    // The cell cannot end before its first line has been seen.
    let mut stream = session.run_stream("print('first', flush=True)\nprint(input())").stdin(move |_| {
        let wait = wait.take();
        Box::pin(async move { wait?.await.ok() })
    });
    let mut text = String::new();
    while !text.contains("first\n") {
        if let Event::Stdout(part) = stream.next().await.expect("more").expect("the call goes well") {
            text += &part;
        }
    }
    answer.send("second".to_owned()).expect("the cell waits");
    let rest = all(stream).await;
    let Some(Event::Done(execution)) = rest.last() else { panic!("{rest:?}") };
    assert_eq!(execution.stdout.text, "first\nsecond\n", "{}", execution.status);
}

async fn a_stream_that_is_never_polled_never_runs(lab: &Lab) {
    let session = lab.session().await;
    session.good("x = 0").await;
    drop(session.run_stream("x = 1"));
    drop(session.run("x = 2"));
    drop(session.run("x = 3").into_future());
    let unpolled = session.run_stream("x = 4");
    assert_eq!(session.value("x").await, "0");
    // It starts when it is first polled.
    all(unpolled).await;
    assert_eq!(session.value("x").await, "4");
}

async fn an_error_is_an_event_before_done(lab: &Lab) {
    let session = lab.session().await;
    let events = all(session.run_stream("print('a')\nraise ValueError('b')")).await;
    assert_eq!(
        shapes(&events),
        [pair("started", ""), pair("stdout", "a\n"), pair("error", "ValueError"), pair("done", "")]
    );
    let Some(Event::Done(done)) = events.last() else { panic!("{events:?}") };
    assert!(matches!(&events[2], Event::Error(error) if Some(error) == done.error()));
}

async fn updates_and_clears_are_events(lab: &Lab) {
    let session = lab.session().await;
    let code = "from IPython.display import clear_output\nhandle = display('a', display_id='own')\nhandle.update('b')\n\
                clear_output(wait=True)\ndisplay('c')\nclear_output()";
    let events = all(session.run_stream(code)).await;
    let kinds: Vec<_> = events.iter().map(|event| json!(event)).collect();
    assert_eq!(
        (&kinds[1]["event"], &kinds[1]["display_id"], &kinds[1]["data"]["text/plain"]),
        (&json!("display"), &json!("own"), &json!("'a'"))
    );
    assert!(
        matches!(&events[2], Event::UpdateDisplay { bundle, display_id } if bundle.text() == Some("'b'") && display_id == "own"),
        "{events:?}"
    );
    assert!(matches!(events[3], Event::ClearOutput { wait: true }), "{events:?}");
    assert!(
        matches!(&events[4], Event::Display { bundle, display_id: None } if bundle.text() == Some("'c'")),
        "{events:?}"
    );
    assert!(matches!(events[5], Event::ClearOutput { wait: false }), "{events:?}");
    // A cell may update what an earlier one showed.
    let events = all(session.run_stream("handle.update('d')")).await;
    assert!(matches!(&events[1], Event::UpdateDisplay { display_id, .. } if display_id == "own"), "{events:?}");
}

async fn a_death_is_told_by_done(lab: &Lab) {
    let session = lab.session().await;
    let events = all(session.run_stream("print('a', flush=True)\nimport os\nos._exit(9)")).await;
    let Some(Event::Done(done)) = events.last() else { panic!("{events:?}") };
    assert!(matches!(&done.status, Status::KernelDied(death) if death.code == Some(9)), "{:?}", done.status);
    assert!(shapes(&events).contains(&pair("stdout", "a\n")));
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn the_events_text_is_the_executions_text(lab: &Lab) {
    let session = lab.session().await;
    let events = all(session.run_stream("for i in range(20000): print('line', i)")).await;
    let text: String = events
        .iter()
        .filter_map(|event| match event {
            Event::Stdout(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let Some(Event::Done(done)) = events.last() else { panic!("no end") };
    assert!(text == done.stdout.text, "{} and {} bytes", text.len(), done.stdout.text.len());
}

async fn events_and_executions_are_json(lab: &Lab) {
    let session = lab.session().await;
    let events = all(session.run_stream("print('a')\n1 / 0")).await;
    let json: Vec<Value> = events.iter().map(|event| json!(event)).collect();
    assert_eq!(json[0]["event"], "started");
    assert_eq!(json[1], json!({"event": "stdout", "text": "a\n"}));
    assert_eq!((&json[2]["event"], &json[2]["ename"]), (&json!("error"), &json!("ZeroDivisionError")));
    let execution = &json[3]["execution"];
    assert_eq!(json[3]["event"], "done");
    assert_eq!(
        (&execution["v"], &execution["status"], &execution["state"]),
        (&json!(1), &json!("error"), &json!("kept"))
    );
    assert_eq!(execution["error"]["evalue"], "division by zero");
    assert_eq!(
        (&execution["death"], &execution["reason"], &execution["rung"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(execution["stdout"]["total_bytes"], 2);
    assert_eq!(execution["outputs"][0], json!({"output_type": "stream", "name": "stdout", "text": "a\n"}));
    assert!(execution["timing"]["total_us"].as_u64() >= execution["timing"]["kernel_us"].as_u64());
    let death = json!(session.cell("import os\nos._exit(3)").await);
    assert_eq!(death["death"], json!({"code": 3, "signal": null, "out_of_memory": false, "reason": null}));
    assert_eq!((&death["status"], &death["state"]), (&json!("kernel_died"), &json!("kernel_restarted")));
}
