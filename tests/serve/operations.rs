//! What it takes to keep a server running: probes, metrics, logs, impatient and absent peers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, answer, assert_refused, eventually, state, text};

#[tokio::test]
async fn metrics_count_what_happened() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "1").await;
    server.execute("a", "1/0").await;
    server.get("/nothing").send().await.unwrap();
    let response = server.get("/metrics").send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = response.text().await.unwrap();
    for line in [
        r#"cellblock_executions_total{status="ok"} 1"#,
        r#"cellblock_executions_total{status="error"} 1"#,
        r#"cellblock_http_requests_total{method="POST",route="/code/execute",status="200"} 2"#,
        "cellblock_sessions 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn logs_are_json_with_ids_and_never_hold_token_identifier_or_code() {
    let Some(server) = Server::start(&["-v", "--msi"]) else { return };
    let identifier = "capability-2718";
    let request =
        server.code_execute(identifier, &json!({"code": "secret_code_3141 = 'value_1618'; secret_code_3141"}));
    let (status, _) = answer(request.header("operation-id", "execution-577")).await;
    assert_eq!(status, StatusCode::OK);
    server.client.get(format!("{}/v1/sessions", server.address)).bearer_auth("wrong-token-1414").send().await.unwrap();
    eventually("it is logged", async || server.logged().contains("execution-577")).await;
    let logged = server.logged();
    let secret = server.said.iter().find_map(|line| line.strip_prefix("IDENTITY_HEADER=")).unwrap();
    for never in
        [server.token.as_deref().unwrap(), secret, identifier, "secret_code_3141", "value_1618", "wrong-token-1414"]
    {
        assert!(!logged.contains(never), "{never} in {logged}");
    }
    let lines: Vec<Value> = logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = lines.iter().find(|line| line["message"] == "the execution has ended").unwrap();
    assert_eq!((&ended["level"], &ended["status"]), (&json!("INFO"), &json!("ok")));
    assert_eq!(ended["span"]["execution"], "execution-577");
    assert!(ended["span"]["session"].as_str().unwrap().starts_with("serve-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_that_send_nothing_keep_nobody_out() {
    let Some(server) = Server::start(&["--no-auth", "--client-timeout", "3s"]) else { return };
    let address = server.address.strip_prefix("http://").unwrap();
    let mut idle: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(server.execute("a", "1+1").await["result"], 2);
    // And each is closed from there.
    for stream in &mut idle {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    }
    assert_eq!(server.execute("a", "2+2").await["result"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_slow_with_its_head_or_its_body_is_cut_off() {
    let Some(server) = Server::start(&["--no-auth", "--client-timeout", "2s"]) else { return };
    let address = server.address.strip_prefix("http://").unwrap();
    let head = "POST /code/execute?identifier=a&api-version=2024-02-02-preview HTTP/1.1\r\nhost: localhost\r\n";
    for start in [head.to_owned(), format!("{head}content-length: 100\r\n\r\n{{\"code\"")] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(start.as_bytes()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        let begun = Instant::now();
        let _ = stream.read_to_end(&mut answer);
        assert!(begun.elapsed() < Duration::from_secs(30), "{start}");
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
    }
    assert!(server.containers().is_empty());
}

#[tokio::test]
async fn a_rate_limit_refuses_what_is_past_it() {
    let Some(server) = Server::start(&["--no-auth", "--max-rate", "5"]) else { return };
    let mut refused = None;
    for _ in 0..100 {
        let response = server.get("/v1/sessions").send().await.unwrap();
        if response.status() != StatusCode::OK {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("a hundred at once are too many");
    assert_refused(&refused, 429, "TooManyRequests");
    assert!(refused.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn what_strangers_make_up_is_not_kept() {
    let Some(server) = Server::start(&[]) else { return };
    for method in ["BREW", "STEEP"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let asked = server.client.request(method, format!("{}/v1/sessions", server.address)).send().await.unwrap();
        assert_refused(&asked, 401, "Unauthorized");
    }
    let metrics = server.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains(r#"method="other""#) && !metrics.contains("BREW"), "{metrics}");
    let login = server
        .client
        .post(format!("{}/login", server.address))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("token={}", "x".repeat(5000)));
    assert_eq!(login.send().await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn callers_without_a_token_do_not_take_the_turn_of_those_with_one() {
    let Some(server) = Server::start(&["--max-rate", "1"]) else { return };
    let stranger =
        async |path: &str| server.client.get(format!("{}{path}", server.address)).send().await.unwrap().status();
    let mut refused = false;
    for _ in 0..50 {
        refused |= stranger("/v1/sessions").await == StatusCode::TOO_MANY_REQUESTS;
    }
    assert!(refused);
    assert_eq!(stranger("/health").await, StatusCode::OK);
    assert_eq!(server.get("/v1/sessions").send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn strangers_do_not_take_the_turn_of_who_looks_at_the_page() {
    let Some(server) = Server::start(&["--max-rate", "1"]) else { return };
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let login = browser
        .post(format!("{}/login", server.address))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("token={}", server.token.as_deref().unwrap()));
    let cookie = login.send().await.unwrap().headers()["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    let look = async |cookie: &str| {
        let look = browser.get(format!("{}/", server.address)).header("cookie", cookie);
        look.send().await.unwrap().status()
    };
    let mut refused = false;
    for _ in 0..50 {
        refused |= look("cellblock=made-up").await == StatusCode::TOO_MANY_REQUESTS;
    }
    assert!(refused);
    assert_eq!(look(cookie).await, StatusCode::OK);
}

/// A way to the engine that can be cut.
struct Proxy {
    path: PathBuf,
    open: Arc<AtomicBool>,
    _directory: tempfile::TempDir,
}

impl Proxy {
    fn new() -> Self {
        let directory = state();
        let path = directory.path().join("engine.sock");
        let open = Arc::new(AtomicBool::new(true));
        let proxy = Self { path: path.clone(), open: Arc::clone(&open), _directory: directory };
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if !open.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(engine) = UnixStream::connect(Path::new("/var/run/docker.sock")) else { continue };
                for (mut from, mut to) in [(stream.try_clone().unwrap(), engine.try_clone().unwrap()), (engine, stream)]
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        proxy
    }
}

#[tokio::test]
async fn without_an_engine_it_answers_503_and_recovers_by_itself() {
    let proxy = Proxy::new();
    proxy.open.store(false, Ordering::Relaxed);
    let host = format!("unix://{}", proxy.path.display());
    let started = Server::start_with(&["--no-auth", "--warm", "1"], |command| {
        command.env("DOCKER_HOST", &host);
    });
    let Some(server) = started else { return };
    for _ in 0..2 {
        let response = server.code_execute("a", &json!({"code": "1"})).send().await.unwrap();
        assert_refused(&response, 503, "EngineUnavailable");
        assert!(response.headers().contains_key("retry-after"));
        assert_eq!(server.get("/ready").send().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(server.get("/health").send().await.unwrap().status(), StatusCode::OK);
    }
    proxy.open.store(true, Ordering::Relaxed);
    assert_eq!(server.execute("a", "1+1").await["result"], 2);
    proxy.open.store(false, Ordering::Relaxed);
    eventually("it is noticed again", async || {
        let response = server.code_execute("b", &json!({"code": "1"})).send().await.unwrap();
        // The pool may hold one more, which needs no engine.
        server.request(Method::DELETE, "/v1/sessions/b").send().await.unwrap();
        response.status() == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    proxy.open.store(true, Ordering::Relaxed);
    eventually("the pool is filled again", async || answer(server.get("/ready")).await.1["warm"] == 1).await;
}

#[tokio::test]
async fn an_engine_that_hangs_keeps_no_call_waiting_for_those_before_it() {
    let directory = state();
    let socket = directory.path().join("engine.sock");
    let _never_answers = UnixListener::bind(&socket).unwrap();
    let started = Server::start_with(&["--no-auth"], |command| {
        command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
    });
    let Some(server) = started else { return };
    let call = async || {
        let begun = Instant::now();
        assert_refused(&server.get("/ready").send().await.unwrap(), 503, "EngineUnavailable");
        begun.elapsed()
    };
    let one = call().await;
    let all = futures_util::future::join_all((0..8).map(|_| call())).await;
    // One look may be under way already, and then there is one more.
    assert!(all.iter().all(|took| *took < 4 * one), "{one:?}, {all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_sessions_are_taken_over_once_an_engine_answers() {
    let directory = state();
    let args = ["--no-auth", "--keep-sessions", "--state-dir", text(directory.path())];
    let Some(mut server) = Server::start(&args) else { return };
    server.execute("a", "x = 'kept'").await;
    assert_eq!(tokio::task::block_in_place(|| server.end("-TERM")), 0);
    let proxy = Proxy::new();
    proxy.open.store(false, Ordering::Relaxed);
    let host = format!("unix://{}", proxy.path.display());
    let started = Server::start_with(&args, |command| {
        command.env("DOCKER_HOST", &host);
    });
    let Some(server) = started else { return };
    let response = server.code_execute("a", &json!({"code": "x"})).send().await.unwrap();
    assert_refused(&response, 503, "EngineUnavailable");
    assert!(response.headers().contains_key("retry-after"));
    assert_refused(&server.get("/v1/sessions/a").send().await.unwrap(), 503, "SessionFailed");
    proxy.open.store(true, Ordering::Relaxed);
    eventually("it is taken over", async || answer(server.get("/v1/sessions/a")).await.0 == StatusCode::OK).await;
    assert_eq!(server.execute("a", "x").await["result"], "kept");
    let delete = server.request(Method::DELETE, "/v1/sessions/a").send().await.unwrap();
    assert_eq!(delete.status(), StatusCode::NO_CONTENT);
}

#[test]
fn an_image_that_is_not_there_is_told_at_the_start() {
    if crate::support::image().is_none() {
        return;
    }
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_cellblock"))
        .args(["serve", "--listen", "127.0.0.1:0", "--image", "cellblock-test-none:none"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("cellblock-test-none:none") && stderr.contains("image build"), "{stderr}");
}
