//! A real server process, and what tests say to it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cellblock::Docker;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) const OLD: &str = "2024-02-02-preview";
pub(crate) const NEW: &str = "2025-02-02-preview";
pub(crate) const NEWEST: &str = "2025-10-02-preview";

/// A server of its own, which ends with the test.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: Option<String>,
    /// What it printed when it started.
    pub(crate) said: Vec<String>,
    pub(crate) log: tempfile::NamedTempFile,
    pub(crate) client: Client,
}

impl Server {
    /// None, with a word about it, where there is no engine or no image.
    pub(crate) fn start(args: &[&str]) -> Option<Self> {
        Self::start_with(args, |_| {})
    }

    /// The same in another environment.
    pub(crate) fn start_with(args: &[&str], change: impl FnOnce(&mut Command)) -> Option<Self> {
        let image = image()?;
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellblock"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--image", image])
            .args(args)
            .env_remove("CELLBLOCK_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap());
        // Machines that run tests are not always generous.
        if !args.contains(&"--memory-reserve") {
            command.args(["--memory-reserve", "64m"]);
        }
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        for line in &mut lines {
            let line = line.unwrap();
            if line == "ready" {
                break;
            }
            said.push(line);
        }
        let after = |word: &str| said.iter().find_map(|line| line.strip_prefix(word)).map(str::to_owned);
        let address = after("listening on ").unwrap_or_else(|| {
            panic!("the server did not start: {}", std::fs::read_to_string(log.path()).unwrap_or_default())
        });
        let token = after("token ");
        Some(Self { child, address, token, said, log, client: Client::new() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A request with the token, if there is one.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address)).timeout(PATIENCE);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    /// An execute request of the first family.
    pub(crate) fn code_execute(&self, identifier: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, &format!("/code/execute?identifier={identifier}&api-version={OLD}")).json(body)
    }

    /// Runs code by the first family.
    pub(crate) async fn execute(&self, identifier: &str, code: &str) -> Value {
        let (status, body) = answer(self.code_execute(identifier, &json!({ "properties": { "code": code } }))).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["properties"].clone()
    }

    /// An execute request of the newer family.
    pub(crate) fn executions(&self, identifier: &str, version: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, &format!("/executions?identifier={identifier}&api-version={version}")).json(body)
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn end(&mut self, signal: &str) -> i32 {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "the server did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The containers of its sessions.
    pub(crate) fn containers(&self) -> Vec<String> {
        containers(self.child.id())
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        }
        let _ = self.child.wait();
    }
}

/// The names of the containers that a process owns, by the owner's annotation.
pub(crate) fn containers(pid: u32) -> Vec<String> {
    let output = Command::new("docker")
        .args(["ps", "-a", "--format", "{{.Names}} {{.Labels}}", "--filter", "label=cellblock.owner"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let owner = format!(" {pid} ");
    text.lines().filter(|line| line.contains(&owner)).map(str::to_owned).collect()
}

/// Sends a request; the status and the JSON of its answer.
pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// That a request is refused with this status and code, in the body and in the header.
#[track_caller]
pub(crate) fn assert_refused(response: &Response, status: u16, code: &str) {
    assert_eq!(response.status().as_u16(), status);
    assert_eq!(response.headers().get("x-ms-error-code").map(|code| code.to_str().unwrap()), Some(code));
}

/// Waits until something holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let until = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < until, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The image that tests run in.
pub(crate) fn image() -> Option<&'static str> {
    static IMAGE: OnceLock<Result<String, String>> = OnceLock::new();
    let found = IMAGE.get_or_init(|| {
        let find = || async {
            let engine = Docker::connect().await.map_err(|error| format!("no engine: {error}"))?;
            let chosen = std::env::var("CELLBLOCK_TEST_IMAGE").ok();
            for image in chosen.map_or(vec!["cellblock:base".into(), "cellblock:data".into()], |image| vec![image]) {
                if engine.image(&image).await.is_ok_and(|found| found.is_some()) {
                    return Ok(image);
                }
            }
            Err("no kernel image, and CELLBLOCK_TEST_IMAGE names no other".to_owned())
        };
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(find())
        })
        .join()
        .unwrap()
    });
    match found {
        Ok(image) => Some(image),
        Err(why) => {
            skip(why);
            None
        }
    }
}

#[expect(clippy::print_stderr, reason = "the reader of the test's output must know")]
fn skip(why: &str) {
    assert!(std::env::var_os("CELLBLOCK_REQUIRE_ENGINE").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// A directory for a server's state.
pub(crate) fn state() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
