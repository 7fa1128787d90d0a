//! How long sessions last, how many there are, the pool, and what a server leaves.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{NEW, OLD, PATIENCE, Server, answer, assert_refused, containers, eventually, state, text};

#[tokio::test]
async fn sessions_are_looked_at_listed_and_ended() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "open('f', 'w').write('1')").await;
    server.execute("b", "1").await;
    let (_, session) = answer(server.get(&format!("/session?identifier=a&api-version={NEW}"))).await;
    assert_eq!(session["identifier"], "a");
    for time in ["createdAt", "lastAccessedAt", "expireAt"] {
        assert!(session[time].as_str().unwrap().ends_with('Z'), "{session}");
    }
    let same = server.request(Method::POST, &format!("/.management/getSession?identifier=a&api-version={NEW}"));
    let (status, same) = answer(same).await;
    assert_eq!((status, &same["etag"]), (StatusCode::OK, &session["etag"]));
    let (_, list) = answer(server.get(&format!("/listSessions?api-version={NEW}"))).await;
    let names: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|one| one["identifier"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    let (_, rest) = answer(server.get(&format!("/listSessions?api-version={NEW}&skip=1"))).await;
    assert_eq!(rest["sessions"].as_array().unwrap().len(), 1);
    let delete = server.request(Method::DELETE, &format!("/session?identifier=a&api-version={NEW}"));
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    // The same identifier is a new, empty session.
    let (_, files) = answer(server.get(&format!("/files?identifier=a&api-version={OLD}"))).await;
    assert_eq!(files["value"], json!([]));
    let (_, again) = answer(server.get(&format!("/session?identifier=a&api-version={NEW}"))).await;
    assert_ne!(again["etag"], session["etag"]);
    let stop = server.request(Method::POST, &format!("/.management/stopSession?identifier=b&api-version={NEW}"));
    assert_eq!(stop.send().await.unwrap().status(), StatusCode::OK);
    eventually("the containers of both are gone", async || server.containers().len() == 1).await;
}

#[tokio::test]
async fn many_first_calls_at_once_make_one_session() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let calls = (0..8).map(|_| server.execute("a", "try:\n    n += 1\nexcept NameError:\n    n = 1"));
    futures_util::future::join_all(calls).await;
    assert_eq!(server.execute("a", "n").await["result"], 8);
    assert_eq!(server.containers().len(), 1);
}

#[tokio::test]
async fn a_first_call_that_is_dropped_leaves_its_session_and_no_ghost_of_one() {
    let Some(server) = Server::start(&["--no-auth", "--max-sessions", "1"]) else { return };
    let call = tokio::spawn(server.code_execute("a", &json!({"code": "1"})).send());
    eventually("its session starts", async || !server.containers().is_empty()).await;
    call.abort();
    let _ = call.await;
    assert_eq!(server.execute("a", "1+1").await["result"], 2);
    assert_eq!(server.containers().len(), 1);
    let delete = server.request(Method::DELETE, "/v1/sessions/a").send().await.unwrap();
    assert_eq!(delete.status(), StatusCode::NO_CONTENT);
    assert_eq!(server.execute("b", "2+2").await["result"], 4);
}

#[tokio::test]
async fn a_session_ends_by_idle_time_which_every_call_resets() {
    let (idle, cell) = (Duration::from_secs(3), Duration::from_secs(4));
    let Some(server) = Server::start(&["--no-auth", "--idle-timeout", "3s"]) else { return };
    let until = Instant::now() + PATIENCE;
    for round in 0.. {
        let session = format!("a{round}");
        server.execute(&session, "import time").await;
        let begun = Instant::now();
        server.execute(&session, "x = 1").await;
        // A cell that runs longer is use.
        let long = server.execute(&session, "time.sleep(4); x").await;
        let last = server.execute(&session, "x").await;
        // A machine that stalls between two calls for as long as a session may be idle shows nothing.
        if begun.elapsed() < cell + idle {
            assert_eq!((&long["result"], &last["result"]), (&json!(1), &json!(1)));
            eventually("it has ended", async || server.containers().is_empty()).await;
            assert_eq!(server.execute(&session, "x").await["status"], "Failure");
            return;
        }
        assert!(Instant::now() < until, "this machine stalls all the time");
    }
}

#[tokio::test]
async fn the_end_of_a_session_is_not_told_to_come_nearer_while_a_cell_runs() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let cell = json!({"code": "import time; time.sleep(100)", "executionType": "Asynchronous"});
    assert_eq!(server.executions("a", NEW, &cell).send().await.unwrap().status(), StatusCode::OK);
    // Which is no call to the session itself.
    let list = async || answer(server.get(&format!("/listSessions?api-version={NEW}"))).await.1["sessions"][0].clone();
    let times = async || {
        let session = list().await;
        ["lastAccessedAt", "expireAt"].map(|time| session[time].as_str().unwrap().to_owned())
    };
    let [used, ends] = times().await;
    eventually("its end goes before it", async || {
        let now = times().await;
        now[0] > used && now[1] > ends
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_over_before_its_first_call_is_not_made_again_and_again() {
    let Some(server) = Server::start(&["--no-auth", "--idle-timeout", "0.001ms"]) else { return };
    assert_eq!(server.execute("a", "1+1").await["result"], 2);
}

#[tokio::test]
async fn a_session_ends_by_its_maximum_life() {
    let Some(server) = Server::start(&["--no-auth", "--max-life", "4s"]) else { return };
    server.execute("a", "x = 1").await;
    eventually("it has ended, though it is used", async || {
        server.execute("a", "'x' in globals()").await["result"] == false
    })
    .await;
}

#[tokio::test]
async fn a_session_whose_container_was_removed_is_made_anew() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 1").await;
    let named = server.containers();
    let name = named[0].split(' ').next().unwrap();
    assert!(std::process::Command::new("docker").args(["rm", "-f", name]).output().unwrap().status.success());
    eventually("it is noticed", async || answer(server.get("/v1/sessions/a")).await.0 == StatusCode::NOT_FOUND).await;
    assert_eq!(server.execute("a", "'x' in globals()").await["result"], false);
}

#[tokio::test]
async fn a_container_that_goes_during_a_cell_is_an_answer() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "import time").await;
    let named = server.containers();
    let name = named[0].split(' ').next().unwrap();
    let running = tokio::spawn(answer(server.code_execute("a", &json!({"code": "time.sleep(100)"}))));
    eventually("it runs", async || answer(server.get("/v1/sessions/a")).await.1["executing"] == 1).await;
    assert!(std::process::Command::new("docker").args(["rm", "-f", name]).output().unwrap().status.success());
    let (status, body) = running.await.unwrap();
    assert_eq!((status, &body["properties"]["status"]), (StatusCode::OK, &json!("Failure")));
    assert_eq!(body["properties"]["stderr"], "Execution aborted");
}

#[tokio::test]
async fn one_session_too_many_is_told_when_to_come_again() {
    let Some(server) = Server::start(&["--no-auth", "--max-sessions", "1"]) else { return };
    server.execute("a", "1").await;
    let response = server.code_execute("b", &json!({"code": "1"})).send().await.unwrap();
    assert_refused(&response, 429, "TooManySessions");
    assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(server.execute("a", "2").await["result"], 2);
    let delete = server.request(Method::DELETE, &format!("/session?identifier=a&api-version={NEW}"));
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(server.execute("b", "3").await["result"], 3);
}

#[tokio::test]
async fn one_execution_too_many_is_refused_and_those_that_wait_run_in_order() {
    let Some(server) = Server::start(&["--no-auth", "--max-queue", "2"]) else { return };
    server.execute("a", "import pathlib, time; order = []").await;
    let slow = "while not pathlib.Path('go').exists(): time.sleep(0.01)\norder.append(1)";
    let slow = json!({"code": slow, "executionType": "Asynchronous"});
    let next = json!({"code": "order.append(2)", "executionType": "Asynchronous"});
    assert_eq!(server.executions("a", NEW, &slow).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.executions("a", NEW, &next).send().await.unwrap().status(), StatusCode::OK);
    let response = server.code_execute("a", &json!({"code": "1"})).send().await.unwrap();
    assert_refused(&response, 429, "TooManyExecutions");
    let go = server.request(Method::PUT, "/v1/sessions/a/files/go").send().await.unwrap();
    assert_eq!(go.status(), StatusCode::CREATED);
    eventually("both have ended", async || answer(server.get("/v1/sessions/a")).await.1["executing"] == 0).await;
    assert_eq!(server.execute("a", "order").await["result"], "[1, 2]");
}

#[tokio::test]
async fn memory_pressure_refuses_a_new_session() {
    let Some(server) = Server::start(&["--no-auth", "--memory-reserve", "100t"]) else { return };
    let response = server.code_execute("a", &json!({"code": "1"})).send().await.unwrap();
    assert_refused(&response, 503, "MemoryPressure");
    assert!(response.headers().contains_key("retry-after"));
    assert!(server.containers().is_empty());
}

#[tokio::test]
async fn a_warm_session_is_handed_over_and_never_again() {
    let Some(server) = Server::start(&["--no-auth", "--warm", "2"]) else { return };
    let warm = async || answer(server.get("/ready")).await.1["warm"].as_u64().unwrap_or_default();
    eventually("the pool is full", async || warm().await == 2).await;
    let mut guids = Vec::new();
    for identifier in ["a", "b", "c", "d"] {
        eventually("the pool is full again", async || warm().await == 2).await;
        let response = server.code_execute(identifier, &json!({"code": "x = 1"})).send().await.unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-ms-new-allocation"), "true");
        guids.push(header("x-ms-session-guid"));
        // A given one back is no warm one.
        let delete = server.request(Method::DELETE, &format!("/session?identifier={identifier}&api-version={NEW}"));
        delete.send().await.unwrap();
    }
    let metrics = server.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("cellblock_hand_over_seconds_count 4\n"), "{metrics}");
    guids.sort();
    guids.dedup();
    assert_eq!(guids.len(), 4);
    assert_eq!(server.execute("e", "'x' in globals()").await["result"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_end_finishes_what_runs_and_leaves_no_container() {
    let Some(mut server) = Server::start(&["--no-auth", "--warm", "1"]) else { return };
    server.execute("a", "import pathlib, time").await;
    let code = "while not pathlib.Path('go').exists(): time.sleep(0.01)\n'finished'";
    let running = tokio::spawn(answer(server.code_execute("a", &json!({ "code": code }))));
    eventually("it runs", async || answer(server.get("/v1/sessions/a")).await.1["executing"] == 1).await;
    let pid = server.pid();
    let told = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap();
    assert!(told.success());
    eventually("it is about to end", async || server.logged().contains("shutting down")).await;
    for container in containers(pid) {
        let name = container.split(' ').next().unwrap();
        std::process::Command::new("docker").args(["exec", name, "touch", "/mnt/data/go"]).output().unwrap();
    }
    let answered = running.await.unwrap();
    // Told again, it does no other thing.
    let code = tokio::task::block_in_place(|| server.end("-TERM"));
    assert_eq!((code, &answered.1["properties"]["result"]), (0, &json!("finished")));
    assert_eq!(containers(pid), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_outlasts_the_grace_does_not_keep_the_server() {
    let Some(mut server) = Server::start(&["--no-auth", "--shutdown-grace", "1s"]) else { return };
    server.execute("a", "import time").await;
    let running = tokio::spawn(server.code_execute("a", &json!({"code": "time.sleep(100)"})).send());
    eventually("it runs", async || answer(server.get("/v1/sessions/a")).await.1["executing"] == 1).await;
    let (pid, begun) = (server.pid(), Instant::now());
    assert_eq!(tokio::task::block_in_place(|| server.end("-INT")), 0);
    assert!(begun.elapsed() < Duration::from_secs(60));
    if let Ok(answered) = running.await.unwrap() {
        let body: Value = answered.json().await.unwrap();
        assert_eq!(body["properties"]["status"], "Failure", "{body}");
    }
    assert_eq!(containers(pid), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_sessions_are_taken_over_by_the_next_start() {
    let directory = state();
    let args = ["--no-auth", "--keep-sessions", "--warm", "1", "--state-dir", text(directory.path())];
    let Some(mut server) = Server::start(&args) else { return };
    server.execute("a/../b", "x = 'kept'; open('f', 'w').write('1')").await;
    let brief =
        server.request(Method::POST, "/v1/sessions").json(&json!({"identifier": "brief", "timeout_seconds": 0.5}));
    assert_eq!(brief.send().await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(tokio::task::block_in_place(|| server.end("-TERM")), 0);
    let Some(mut server) = Server::start(&args) else { return };
    assert_eq!(server.execute("a/../b", "x").await["result"], "kept");
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_cellblock"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(args)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server keeps its sessions"), "{second:?}");
    let cell = json!({"code": "import time; time.sleep(60)"});
    let (_, outcome) = answer(server.request(Method::POST, "/v1/sessions/brief/executions").json(&cell)).await;
    assert_eq!(outcome["status"], "timed_out", "its time was kept too: {outcome}");
    let delete = server.request(Method::DELETE, "/v1/sessions/brief");
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    // Killed, it had no time to say what to keep.
    assert_eq!(tokio::task::block_in_place(|| server.end("-KILL")), -1);
    let Some(server) = Server::start(&args) else { return };
    assert_eq!(server.execute("a/../b", "x").await["result"], "kept");
    let delete = server.request(Method::DELETE, &format!("/session?identifier=a/../b&api-version={NEW}"));
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    drop(server);
    let record = std::fs::read_to_string(directory.path().join("sessions.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let ours = format!("serve-{}-", record["server"].as_str().unwrap());
    let list =
        std::process::Command::new("docker").args(["ps", "-aq", "--filter", &format!("name={ours}")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&list.stdout), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_session_that_cannot_be_taken_over_for_a_moment_is_not_lost() {
    let directory = state();
    let args = ["--no-auth", "--keep-sessions", "--state-dir", text(directory.path())];
    let Some(mut server) = Server::start(&args) else { return };
    for identifier in ["kept", "unwanted", "gone"] {
        server.execute(identifier, "x = 'kept'").await;
    }
    let named = server.containers();
    assert_eq!(named.len(), 3);
    assert_eq!(tokio::task::block_in_place(|| server.end("-TERM")), 0);
    let record = std::fs::read_to_string(directory.path().join("sessions.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let docker = |command: &str, identifier: &str| {
        let known = record["sessions"].as_array().unwrap().iter().find(|known| known["identifier"] == identifier);
        let name = known.unwrap()["name"].as_str().unwrap();
        let container = named.iter().find_map(|named| named.split(' ').next().filter(|named| named.ends_with(name)));
        let done = std::process::Command::new("docker").args(command.split(' ')).arg(container.unwrap()).output();
        assert!(done.as_ref().unwrap().status.success(), "{command}: {done:?}");
    };
    docker("pause", "kept");
    docker("pause", "unwanted");
    docker("rm -f", "gone");
    // It is recorded also by a server that could not have it.
    let Some(mut server) = Server::start(&args) else { return };
    let response = server.code_execute("kept", &json!({"code": "x"})).send().await.unwrap();
    assert_refused(&response, 503, "SessionFailed");
    assert!(response.headers().contains_key("retry-after"));
    assert_refused(&server.get("/v1/sessions/kept").send().await.unwrap(), 503, "SessionFailed");
    let delete = server.request(Method::DELETE, "/v1/sessions/unwanted").send().await.unwrap();
    assert_eq!(delete.status(), StatusCode::NO_CONTENT);
    for identifier in ["unwanted", "gone"] {
        let response = server.get(&format!("/v1/sessions/{identifier}")).send().await.unwrap();
        assert_refused(&response, 404, "SessionWithIdentifierNotFound");
    }
    assert_eq!(tokio::task::block_in_place(|| server.end("-TERM")), 0);
    let Some(server) = Server::start(&args) else { return };
    docker("unpause", "kept");
    eventually("it is taken over, though nobody asks for it", async || {
        answer(server.get("/v1/sessions")).await.1["sessions"][0]["identifier"] == "kept"
    })
    .await;
    assert_eq!(server.execute("kept", "x").await["result"], "kept");
    assert_eq!(server.execute("gone", "'x' in globals()").await["result"], false);
    for identifier in ["kept", "gone"] {
        let delete = server.request(Method::DELETE, &format!("/v1/sessions/{identifier}")).send().await.unwrap();
        assert_eq!(delete.status(), StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn what_is_installed_can_be_asked_for() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let (status, body) = answer(server.get(&format!("/metadata?api-version={NEW}"))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["runtimes"][0]["name"], "Python");
    assert_eq!(body["jupyterKernel"]["name"], "ipykernel");
    assert!(body["preInstalledPackages"].as_array().unwrap().iter().any(|package| package["name"] == "ipykernel"));
    eventually("its session has ended", async || server.containers().is_empty()).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_the_image_is_asked_leaves_no_session() {
    let directory = state();
    // A session that is kept does not end with who has asked for it.
    let Some(server) = Server::start(&["--no-auth", "-vv", "--keep-sessions", "--state-dir", text(directory.path())])
    else {
        return;
    };
    let asks = tokio::spawn(server.get(&format!("/metadata?api-version={NEW}")).send());
    eventually("the question is put", async || server.logged().contains("sent to the kernel")).await;
    asks.abort();
    assert!(asks.await.is_err_and(|error| error.is_cancelled()), "it was not answered yet");
    eventually("its session has ended", async || server.containers().is_empty()).await;
    assert_eq!(server.get(&format!("/metadata?api-version={NEW}")).send().await.unwrap().status(), StatusCode::OK);
}
