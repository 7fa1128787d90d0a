//! Our own API, and the document that describes it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::{Server, answer, assert_refused, eventually};

fn post(server: &Server, path: &str, body: &Value) -> reqwest::RequestBuilder {
    server.request(Method::POST, path).json(body)
}

/// Reads on until this has come, and returns all that has.
async fn read_until(response: &mut Response, what: &str) -> String {
    let mut read = String::new();
    while !read.contains(what) {
        read.push_str(std::str::from_utf8(&response.chunk().await.unwrap().expect(&read)).unwrap());
    }
    read
}

#[tokio::test]
async fn a_session_is_made_used_and_ended() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let new = json!({"identifier": "a/b", "env": {"GREETING": "hello"}, "memory": 300_000_000, "timeout_seconds": 30});
    let (status, session) = answer(post(&server, "/v1/sessions", &new)).await;
    assert_eq!((status, &session["identifier"]), (StatusCode::CREATED, &json!("a/b")));
    assert_refused(&post(&server, "/v1/sessions", &new).send().await.unwrap(), 409, "Conflict");
    let code = json!({"code": "import os; print('out'); os.environ['GREETING']"});
    let (status, execution) = answer(post(&server, "/v1/sessions/a%2Fb/executions", &code)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&execution["v"], &execution["status"], &execution["state"]), (&json!(1), &json!("ok"), &json!("kept")));
    assert_eq!(
        (&execution["stdout"]["text"], &execution["result"]["data"]["text/plain"]),
        (&json!("out\n"), &json!("'hello'"))
    );
    assert!(execution["timing"]["total_us"].as_u64().unwrap() > 0);
    let (_, list) = answer(server.get("/v1/sessions/a%2Fb/executions")).await;
    assert_eq!((&list["executions"][0]["state"], &list["executions"][0]["outcome"]), (&json!("done"), &execution));
    // One store behind both APIs.
    assert_eq!(server.execute("a%2Fb", "1+1").await["result"], 2);
    let delete = server.request(Method::DELETE, "/v1/sessions/a%2Fb").send().await.unwrap();
    assert_eq!(delete.status(), StatusCode::NO_CONTENT);
    assert_refused(&server.get("/v1/sessions/a%2Fb").send().await.unwrap(), 404, "SessionWithIdentifierNotFound");
}

#[tokio::test]
async fn limits_can_be_tightened_and_not_loosened() {
    let Some(server) = Server::start(&["--no-auth", "--memory", "512m", "--cpus", "1"]) else { return };
    for new in [
        json!({"memory": 1u64 << 30}),
        json!({"memory": 0}),
        json!({"cpus": 2}),
        json!({"cpus": -1}),
        json!({"pids": 100_000}),
        json!({"life_seconds": 1e9}),
        json!({"idle_seconds": 0}),
        json!({"idle_seconds": 0.5}),
        json!({"life_seconds": 0.000_001}),
        json!({"identifier": ""}),
        json!({"env": {"": "x"}}),
        json!({"image": "another"}),
    ] {
        let response = post(&server, "/v1/sessions", &new).send().await.unwrap();
        assert_refused(&response, 400, "SessionRequestValidationFailed");
    }
    assert!(server.containers().is_empty());
}

#[tokio::test]
async fn events_come_as_they_happen_in_both_forms() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "import time").await;
    let code = json!({"code": "print('first')\nwhile True:\n    time.sleep(0.1)"});
    for (accept, content_type) in
        [("text/event-stream", "text/event-stream"), ("application/x-ndjson", "application/x-ndjson")]
    {
        let mut response =
            post(&server, "/v1/sessions/a/executions", &code).header("accept", accept).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], content_type);
        assert!(response.headers().contains_key("cellblock-execution-id"));
        let mut read = read_until(&mut response, r#""event":"stdout""#).await;
        assert!(read.contains(r#"{"event":"stdout","text":"first"#), "{read}");
        let (status, _) = answer(server.request(Method::POST, "/v1/sessions/a/interrupt")).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
        read.push_str(&response.text().await.unwrap());
        let done = read.lines().filter(|line| line.contains(r#""event":"done""#)).collect::<Vec<_>>();
        assert!(done.len() == 1 && done[0].contains(r#""status":"interrupted""#), "{read}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_interrupts_the_cell() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 1").await;
    let code = json!({"code": "import time\nprint('on')\ntime.sleep(100)"});
    let mut response =
        post(&server, "/v1/sessions/a/executions", &code).header("accept", "text/event-stream").send().await.unwrap();
    read_until(&mut response, r#""text":"on"#).await;
    drop(response);
    eventually("the cell has ended", async || answer(server.get("/v1/sessions/a")).await.1["executing"] == 0).await;
    let (_, list) = answer(server.get("/v1/sessions/a/executions")).await;
    assert_eq!(list["executions"].as_array().unwrap().last().unwrap()["state"], "canceled");
    let begun = std::time::Instant::now();
    assert_eq!(server.execute("a", "x").await["result"], 1);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_restart_takes_the_variables_and_leaves_the_files() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 1; open('f', 'w').write('kept')").await;
    let (status, _) = answer(server.request(Method::POST, "/v1/sessions/a/restart")).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(server.execute("a", "'x' in globals(), open('f').read()").await["result"], "(False, 'kept')");
}

#[tokio::test]
async fn scripts_and_programs_run_beside_the_kernel() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "1").await;
    let shell = |body: Value| answer(post(&server, "/v1/sessions/a/shell", &body));
    let (status, outcome) = shell(json!({"script": "read line; echo got $line; exit 4", "stdin": "this\n"})).await;
    assert_eq!(
        (status, &outcome["exit_code"], &outcome["stdout"]["text"]),
        (StatusCode::OK, &json!(4), &json!("got this\n"))
    );
    let (_, outcome) = shell(json!({"argv": ["echo", "a b"]})).await;
    assert_eq!((&outcome["status"], &outcome["stdout"]["text"]), (&json!("exited"), &json!("a b\n")));
    let (_, outcome) = shell(json!({"script": "sleep 100", "timeout_seconds": 1})).await;
    assert_eq!(outcome["status"], "timed_out");
    for bad in
        [json!({}), json!({"script": "x", "argv": ["x"]}), json!({"argv": []}), json!({"argv": ["x"], "shell": "sh"})]
    {
        let response = post(&server, "/v1/sessions/a/shell", &bad).send().await.unwrap();
        assert_refused(&response, 400, "SessionRequestValidationFailed");
    }
}

#[tokio::test]
async fn files_are_put_read_listed_and_removed() {
    let Some(server) = Server::start(&["--no-auth", "--max-upload", "1m"]) else { return };
    server.execute("a", "1").await;
    let path = "/v1/sessions/a/files/dir/%C3%BC%20x.bin";
    let put = |content: Vec<u8>| answer(server.request(Method::PUT, path).body(content));
    let (status, file) = put(vec![0, 1, 255]).await;
    assert_eq!((status, &file["path"], &file["size"]), (StatusCode::CREATED, &json!("dir/ü x.bin"), &json!(3)));
    assert_eq!(server.get(path).send().await.unwrap().bytes().await.unwrap().to_vec(), [0, 1, 255]);
    let too_long = server.request(Method::PUT, path).body(vec![0; (1 << 20) + 1]).send().await.unwrap();
    assert_refused(&too_long, 413, "RequestTooLarge");
    assert_eq!(too_long.headers()["connection"], "close", "the next request does not come behind what was not read");
    let (_, list) = answer(server.get("/v1/sessions/a/files?recursive=true")).await;
    let paths: Vec<&str> =
        list["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["dir", "dir/ü x.bin"]);
    assert_eq!(server.request(Method::DELETE, path).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_refused(&server.get(path).send().await.unwrap(), 404, "FileNotFound");
    assert_refused(
        &server.get("/v1/sessions/a/files/..%2F..%2Fetc%2Fpasswd").send().await.unwrap(),
        400,
        "SessionRequestValidationFailed",
    );
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "1").await;
    let request = || server.request(Method::POST, "/v1/sessions/a/executions");
    assert_refused(&request().body("{}").send().await.unwrap(), 415, "UnsupportedMediaType");
    for body in
        ["", "{", "[]", "{}", r#"{"code":1}"#, r#"{"code":"1","timeout_seconds":0}"#, r#"{"code":"1","extra":1}"#]
    {
        let response = request().header("content-type", "application/json").body(body).send().await.unwrap();
        assert_refused(&response, 400, "SessionRequestValidationFailed");
    }
    let response = post(&server, "/v1/sessions/nobody/executions", &json!({"code": "1"})).send().await.unwrap();
    assert_refused(&response, 404, "SessionWithIdentifierNotFound");
}

#[tokio::test]
async fn the_document_names_every_operation() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let (_, document) = answer(server.get("/openapi.json")).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert!(paths.iter().any(|path| *path == "/v1/sessions/{identifier}/files/{path}"), "{paths:?}");
    assert!(document["components"]["schemas"]["Execution"]["properties"]["state"].is_object());
}

#[tokio::test]
async fn the_document_describes_every_field_of_what_ran() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "1").await;
    let message = json!({"message": "```python\n1/0\n```\n```bash\necho\n```", "keep_going": true});
    let (_, whole) = answer(post(&server, "/v1/sessions/a/blocks", &message)).await;
    let (_, document) = answer(server.get("/openapi.json")).await;
    let [cell, script] = [&whole["blocks"][0]["execution"], &whole["blocks"][1]["script"]];
    for (schema, value) in [
        ("BlocksOutcome", &whole),
        ("BlockOutcome", &whole["blocks"][0]),
        ("Execution", cell),
        ("PythonError", &cell["error"]),
        ("Text", &cell["stdout"]),
        ("Timing", &cell["timing"]),
        ("Usage", &cell["usage"]),
        ("ScriptOutcome", script),
        ("ScriptTiming", &script["timing"]),
    ] {
        let mut written: Vec<&String> = value.as_object().unwrap().keys().collect();
        let described = &document["components"]["schemas"][schema]["properties"];
        let mut described: Vec<&String> = described.as_object().unwrap().keys().collect();
        written.sort();
        described.sort();
        assert_eq!(written, described, "{schema}");
    }
}

#[tokio::test]
async fn the_document_describes_every_field_of_every_event() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "1").await;
    let code = "import sys; from IPython.display import clear_output, display\nprint(1); print(2, file=sys.stderr, flush=True)\n\
                shown = display('a', display_id='d'); shown.update('b'); clear_output()\n3";
    let cells = [json!({"code": code}), json!({"code": "1/0"})].map(|cell| ("/v1/sessions/a/executions", cell));
    let message = json!({"message": "```bash\necho out; echo err >&2\n```"});
    let (_, document) = answer(server.get("/openapi.json")).await;
    let described = document["components"]["schemas"]["Event"]["oneOf"].as_array().unwrap();
    let mut told = BTreeSet::new();
    for (path, body) in cells.into_iter().chain([("/v1/sessions/a/blocks", message)]) {
        let response = post(&server, path, &body).header("accept", "application/x-ndjson").send().await.unwrap();
        for line in response.text().await.unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let name = event["event"].as_str().unwrap().to_owned();
            let shape = described.iter().find(|shape| shape["properties"]["event"]["enum"] == json!([name])).unwrap();
            let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
            let (written, mut fields) = (names(&event), names(&shape["properties"]));
            // It has one of them.
            fields.retain(|field| {
                name != "done" || !["execution", "outcome"].contains(&&**field) || written.contains(field)
            });
            assert_eq!(written, fields, "{name}");
            told.insert(name);
        }
    }
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let all = "block_begun block_ended clear_output display done error result started stderr stdout update_display";
    assert_eq!(told.join(" "), all);
}

#[tokio::test]
async fn an_interrupt_ends_a_block_of_a_shell() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 40").await;
    let message = json!({"message": "```bash\ntouch begun; sleep 1000\n```"});
    let ended = tokio::spawn(post(&server, "/v1/sessions/a/blocks", &message).send());
    eventually("the block runs", || async {
        server.get("/v1/sessions/a/files/begun").send().await.unwrap().status() == StatusCode::OK
    })
    .await;
    let (status, _) = answer(server.request(Method::POST, "/v1/sessions/a/interrupt")).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_refused(&ended.await.unwrap().unwrap(), 409, "Conflict");
    let (_, list) = answer(server.get("/v1/sessions/a/executions")).await;
    assert_eq!(list["executions"].as_array().unwrap().last().unwrap()["state"], "canceled");
    assert_eq!(server.execute("a", "x").await["result"], 40);
}

#[tokio::test]
async fn the_blocks_of_a_message_are_carried_out() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 40").await;
    let message = "First:\n```python\nx += 2\nprint(x)\n```\nand then\n```bash\necho from bash; exit 3\n```\n```python\nnever\n```";
    let blocks = |body: Value| answer(post(&server, "/v1/sessions/a/blocks", &body));
    let (status, outcome) = blocks(json!({"message": message})).await;
    assert_eq!((status, &outcome["exit_code"]), (StatusCode::OK, &json!(3)), "{outcome}");
    assert_eq!(outcome["output"], "42\nfrom bash\n");
    assert_eq!(outcome["blocks"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&outcome["blocks"][0]["result"], &outcome["blocks"][0]["execution"]["status"]),
        (&json!("cell"), &json!("ok"))
    );
    let (_, list) = answer(server.get("/v1/sessions/a/executions")).await;
    assert_eq!(list["executions"].as_array().unwrap().last().unwrap()["outcome"], outcome);
    let response = post(&server, "/v1/sessions/a/blocks", &json!({"message": "no code"})).send().await.unwrap();
    assert_refused(&response, 400, "SessionRequestValidationFailed");
}

#[tokio::test]
async fn blocks_are_told_as_they_are_carried_out() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "import pathlib, time").await;
    let waits = "print('waits')\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)";
    let message = json!({"message": format!("```python\n{waits}\n```\n```bash\necho out; echo err >&2; exit 3\n```")});
    for accept in ["text/event-stream", "application/x-ndjson"] {
        let request = post(&server, "/v1/sessions/a/blocks", &message).header("accept", accept);
        let mut response = request.send().await.unwrap();
        let mut read = read_until(&mut response, "waits").await;
        let page = format!("/live/{}", answer(server.get("/v1/sessions/a")).await.1["id"].as_str().unwrap());
        assert!(server.get(&page).send().await.unwrap().text().await.unwrap().contains(">waits"), "the page, too");
        let (status, _) = answer(server.request(Method::PUT, "/v1/sessions/a/files/go")).await;
        assert_eq!(status, StatusCode::CREATED);
        read.push_str(&response.text().await.unwrap());
        let (status, _) = answer(server.request(Method::DELETE, "/v1/sessions/a/files/go")).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
        let lines = read.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let events: Vec<Value> = lines
            .filter(|line| !line.is_empty() && !line.starts_with(':'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let at = |kind: &str, index: usize| {
            let is_it = |event: &&Value| event["event"] == kind && event["index"] == index;
            let at = events.iter().position(|event| is_it(&event));
            at.unwrap_or_else(|| panic!("no {kind} {index} in {events:?}"))
        };
        let said = |begun: usize, ended: usize, stream: &str| {
            let of_it = events[begun..ended].iter().filter(|event| event["event"] == stream);
            of_it.map(|event| event["text"].as_str().unwrap()).collect::<String>()
        };
        let (cell, script) =
            ((at("block_begun", 0), at("block_ended", 0)), (at("block_begun", 1), at("block_ended", 1)));
        assert!(cell.0 == 0 && cell.1 < script.0 && script.1 == events.len() - 2, "{events:?}");
        assert_eq!(
            (&events[cell.0]["language"], said(cell.0, cell.1, "stdout").as_str()),
            (&json!("python"), "waits\n")
        );
        assert_eq!(said(script.0, script.1, "stdout"), "out\n");
        assert_eq!(said(script.0, script.1, "stderr"), "err\n");
        let whole = events.last().unwrap();
        assert_eq!((&whole["event"], &whole["outcome"]["exit_code"]), (&json!("done"), &json!(3)));
        for (index, ended) in [cell.1, script.1].into_iter().enumerate() {
            assert_eq!(events[ended]["outcome"], whole["outcome"]["blocks"][index]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_client_has_stopped_reading_does_not_hold_its_session() {
    let Some(server) = Server::start(&["--no-auth", "--client-timeout", "2s"]) else { return };
    server.execute("a", "x = 1").await;
    let body = json!({"code": "while True:\n    print('x' * 10_000)"}).to_string();
    let mut stalled = TcpStream::connect(server.address.strip_prefix("http://").unwrap()).unwrap();
    let head = "POST /v1/sessions/a/executions HTTP/1.1\r\nhost: localhost\r\naccept: application/x-ndjson\r\n";
    let more = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stalled.write_all(format!("{head}{more}").as_bytes()).unwrap();
    stalled.read_exact(&mut [0; 100]).unwrap();
    // From here on it only stays connected.
    eventually("the cell has ended", async || answer(server.get("/v1/sessions/a")).await.1["executing"] == 0).await;
    let (_, list) = answer(server.get("/v1/sessions/a/executions")).await;
    assert_eq!(list["executions"].as_array().unwrap().last().unwrap()["state"], "canceled");
    assert_eq!(server.execute("a", "x").await["result"], 1);
    drop(stalled);
}
