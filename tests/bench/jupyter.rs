//! The Python process of the other side.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use cellblock::Session;

use crate::support::{Result, connection};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/jupyter_side.py");

/// `jupyter_client` in a process of its own.
pub(crate) struct Jupyter {
    _process: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Jupyter {
    pub(crate) fn spawn() -> Result<Self> {
        let python = std::env::var_os("CELLBLOCK_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let mut process = Command::new(python)
            .arg(PROGRAM)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the Python process has no pipes".into());
        };
        Ok(Self { _process: process, requests, answers: BufReader::new(answers).lines() })
    }

    pub(crate) async fn ask(&mut self, request: &Value) -> Result<Value> {
        self.requests.write_all(format!("{request}\n").as_bytes()).await?;
        let line = self.answers.next_line().await?;
        let line =
            line.ok_or("the Python process ended; CELLBLOCK_TEST_PYTHON must have jupyter_client and ipykernel")?;
        Ok(serde_json::from_str(&line)?)
    }

    pub(crate) async fn times(&mut self, request: &Value) -> Result<Vec<Duration>> {
        let answer = self.ask(request).await?;
        let times = answer.get("times").and_then(Value::as_array).ok_or("an answer without times")?;
        Ok(times.iter().filter_map(Value::as_f64).map(|micros| Duration::from_secs_f64(micros / 1e6)).collect())
    }

    /// Connects a client to the kernel of a session on the socket link.
    pub(crate) async fn connect(&mut self, name: &str, session: &Session) -> Result<()> {
        let (prefix, key) = connection(session).await?;
        self.ask(&json!({ "do": "connect", "name": name, "prefix": prefix, "key": key })).await?;
        Ok(())
    }

    pub(crate) async fn warm(&mut self, name: &str, way: &str, calls: usize) -> Result<Vec<Duration>> {
        self.times(&json!({ "do": "warm", "name": name, "way": way, "calls": calls })).await
    }
}
