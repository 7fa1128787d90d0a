//! Sessions that go on between commands.

use serde_json::Value;

use crate::support::{Detached, image, run};

#[test]
fn state_is_kept_between_processes() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "state");
    let ended = session.run("x = 41");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
    assert_eq!(session.run("x + 1").stdout, "42\n");
    // A cell that fails takes nothing with it.
    assert_eq!(session.run("1/0").code, 1);
    assert_eq!(session.run("x + 1").stdout, "42\n");
    let restarted = run(["session", "restart", &session.0]);
    assert_eq!((restarted.code, restarted.stdout.as_str()), (0, ""), "{}", restarted.stderr);
    assert_eq!(session.run("'x' in globals()").stdout, "False\n");
}

#[test]
fn sessions_are_listed_and_stopped_by_name() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "listed");
    let list = run(["session", "list"]).stdout;
    assert!(list.starts_with("NAME"), "{list}");
    let line = list.lines().find(|line| line.starts_with(&session.0)).expect("it is listed");
    assert!(line.contains("running") && line.contains("detached") && line.contains(image), "{line}");
    let json: Value = serde_json::from_str(&run(["session", "list", "--json"]).stdout).unwrap();
    assert_eq!(json["v"], 1);
    let listed = json["sessions"].as_array().unwrap().iter().find(|listed| listed["name"] == *session.0).unwrap();
    assert_eq!((&listed["lease"], &listed["image"]), (&"detached".into(), &image.into()));

    let taken = run(["session", "start", &session.0, "--image", image]);
    assert_eq!((taken.code, taken.stdout.as_str()), (7, ""), "{}", taken.stderr);
    assert!(taken.stderr.contains(&session.0), "{}", taken.stderr);

    let stopped = run(["session", "stop", &session.0]);
    assert_eq!((stopped.code, stopped.stdout), (0, format!("{}\n", session.0)), "{}", stopped.stderr);
    let gone = session.run("1");
    assert_eq!((gone.code, gone.stdout.as_str()), (7, ""), "{}", gone.stderr);
    assert!(gone.stderr.contains("there is no session"), "{}", gone.stderr);
    assert_eq!(run(["session", "stop", &session.0]).code, 7);
    assert!(!run(["session", "list"]).stdout.contains(&session.0));
}
