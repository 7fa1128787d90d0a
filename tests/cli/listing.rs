//! `session list` and `session stop --all` against a stand-in of an engine, where nobody else's sessions are.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Ended, cellblock, ended};

/// Answers what Docker answers to the few requests that these commands make.
struct FakeEngine {
    directory: TempDir,
    containers: Arc<Mutex<Vec<Value>>>,
}

impl FakeEngine {
    fn start(containers: Vec<Value>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("docker.sock")).unwrap();
        let containers = Arc::new(Mutex::new(containers));
        let shared = Arc::clone(&containers);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream.unwrap(), &shared));
            }
        });
        Self { directory, containers }
    }

    fn run(&self, args: &[&str]) -> Ended {
        let socket = format!("unix://{}", self.directory.path().join("docker.sock").display());
        ended(&cellblock(args).env("DOCKER_HOST", socket).output().unwrap())
    }

    fn ids(&self) -> Vec<String> {
        self.containers.lock().unwrap().iter().map(|container| container["Id"].as_str().unwrap().to_owned()).collect()
    }
}

fn serve(mut stream: &UnixStream, containers: &Mutex<Vec<Value>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(request)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let (status, body) = answer(&request, &mut containers.lock().unwrap());
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(request: &str, containers: &mut Vec<Value>) -> (&'static str, String) {
    if request.starts_with("DELETE ") {
        let before = containers.len();
        containers
            .retain(|container| !request.contains(&format!("/containers/{}?", container["Id"].as_str().unwrap())));
        return if containers.len() < before {
            ("204 No Content", String::new())
        } else {
            ("404 Not Found", "{}".into())
        };
    }
    if request.contains("/containers/json") {
        let asked_for = |container: &&Value| {
            let name = container["Labels"]["cellblock.session"].as_str().unwrap();
            !request.contains("cellblock.session") || request.contains(&format!("cellblock.session%3D{name}%22"))
        };
        let listed: Vec<&Value> = containers.iter().filter(asked_for).collect();
        return ("200 OK", json!(listed).to_string());
    }
    ("200 OK", json!({ "ApiVersion": "1.41", "Version": "20.10.24", "Components": [] }).to_string())
}

fn container(id: &str, name: &str, lease: &str) -> Value {
    json!({
        "Id": id, "Names": [format!("/cellblock-0-{name}")], "Image": "cellblock:data", "State": "running",
        "Created": 1_700_000_000,
        "Labels": {
            "cellblock.session": name, "cellblock.lease": lease,
            "cellblock.directory": "aaaaaaaaaaaa", "cellblock.expires": "4000000000",
        },
    })
}

#[test]
fn a_list_is_a_table_or_json() {
    let engine =
        FakeEngine::start(vec![container("id2", "second-one", "detached"), container("id1", "first", "owned")]);
    let table = engine.run(&["session", "list"]);
    assert_eq!((table.code, table.stderr.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = table.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "LEASE", "AGE", "IMAGE"]);
    assert_eq!((&rows[1][..3], rows[1][4]), (["first", "running", "owned"].as_slice(), "cellblock:data"));
    assert_eq!(&rows[2][..3], ["second-one", "running", "detached"]);
    assert_eq!(rows.len(), 3);

    let list: Value = serde_json::from_str(&engine.run(&["session", "list", "--json"]).stdout).unwrap();
    let first = json!({
        "name": "first", "container": "id1", "image": "cellblock:data", "state": "running", "lease": "owned",
        "created": 1_700_000_000,
    });
    assert_eq!((&list["v"], &list["sessions"][0]), (&1.into(), &first));
}

#[test]
fn all_sessions_are_stopped() {
    let engine =
        FakeEngine::start(vec![container("id2", "second-one", "detached"), container("id1", "first", "owned")]);
    let stopped = engine.run(&["session", "stop", "--all"]);
    assert_eq!((stopped.code, stopped.stdout.as_str(), stopped.stderr.as_str()), (0, "first\nsecond-one\n", ""));
    assert!(engine.ids().is_empty());
    let stopped = engine.run(&["session", "stop", "--all"]);
    assert_eq!((stopped.code, stopped.stdout.as_str(), stopped.stderr.as_str()), (0, "", "no sessions\n"));
}

#[test]
fn what_will_not_run_again_is_pruned() {
    let mut over = container("id1", "over", "detached");
    over["State"] = "exited".into();
    let engine = FakeEngine::start(vec![over, container("id2", "runs", "detached")]);
    let pruned = engine.run(&["prune"]);
    assert_eq!((pruned.code, pruned.stdout.as_str(), pruned.stderr.as_str()), (0, "over\n", ""));
    assert_eq!(engine.ids(), ["id2"]);
    assert_eq!(engine.run(&["prune"]).stderr, "nothing to remove\n");
}

#[test]
fn one_that_is_not_there_does_not_keep_others_from_being_stopped() {
    let engine =
        FakeEngine::start(vec![container("id1", "first", "detached"), container("id2", "second-one", "detached")]);
    let stopped = engine.run(&["session", "stop", "missing", "first"]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (7, "first\n"));
    assert!(stopped.stderr.starts_with("error: there is no session named missing\nhint: "), "{}", stopped.stderr);
    assert_eq!(engine.ids(), ["id2"]);
}
