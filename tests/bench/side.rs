//! A process that is asked over its stdin and answers over its stdout, a line of JSON each. Times are in microseconds.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::Result;

pub(crate) struct Side {
    process: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    if_it_ends: &'static str,
}

impl Side {
    /// `if_it_ends` is the error when an answer does not come.
    pub(crate) fn spawn(command: &mut Command, if_it_ends: &'static str) -> Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        Ok(Self { process, requests, answers: BufReader::new(answers).lines(), if_it_ends })
    }

    /// What it says next.
    pub(crate) async fn answer(&mut self) -> Result<Value> {
        let line = self.answers.next_line().await?.ok_or(self.if_it_ends)?;
        Ok(serde_json::from_str(&line)?)
    }

    pub(crate) async fn ask(&mut self, request: &Value) -> Result<Value> {
        self.requests.write_all(format!("{request}\n").as_bytes()).await?;
        self.answer().await
    }

    pub(crate) async fn times(&mut self, request: &Value) -> Result<Vec<Duration>> {
        let answer = self.ask(request).await?;
        let times = answer.get("times").and_then(Value::as_array).ok_or("an answer without times")?;
        Ok(times.iter().filter_map(Value::as_f64).map(|micros| Duration::from_secs_f64(micros / 1e6)).collect())
    }

    /// Ends its stdin, and waits until it has cleaned up.
    pub(crate) async fn end(self) -> Result<()> {
        let Self { mut process, requests, .. } = self;
        drop(requests);
        if process.wait().await?.success() { Ok(()) } else { Err(self.if_it_ends.into()) }
    }
}
