//! A controller in a process of its own, whose memory can be measured and which can be stopped: it runs one cell with much
//! output and says what it got.

#![expect(clippy::print_stdout, reason = "stdout is how this process answers")]

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cellblock::{Event, Execution, LinkPolicy, Output};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::memory;
use crate::support::{LINKS, Result, call, session};

pub(crate) const COMMAND: &str = "controller";
/// What the controller says when the first output has come.
const UNDER_WAY: &str = "under way";

/// A cell with much output, and what has to come of it.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    code: &'static str,
    line: fn(u64) -> String,
    lines: u64,
    displays: u64,
}

pub(crate) const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "print",
        title: "100 MB by one print",
        code: "print('a' * 49_999_999 + 'b' * 50_000_000)",
        line: |_| format!("{}{}\n", "a".repeat(49_999_999), "b".repeat(50_000_000)),
        lines: 1,
        displays: 0,
    },
    Workload {
        name: "loop",
        title: "100 MB by 100,000 prints",
        code: "for i in range(100_000): print(f'{i:0999}')",
        line: |number| format!("{number:0999}\n"),
        lines: 100_000,
        displays: 0,
    },
    Workload {
        name: "prints",
        title: "200,000 prints",
        code: "print('go', flush=True)\nfor i in range(1, 200_000): print(i)",
        line: |number| if number == 0 { "go\n".to_owned() } else { format!("{number}\n") },
        lines: 200_000,
        displays: 0,
    },
    Workload {
        name: "displays",
        title: "20,000 displays",
        code: "print('go', flush=True)\nfor i in range(20_000): display(i)",
        line: |_| "go\n".to_owned(),
        lines: 1,
        displays: 20_000,
    },
];

/// What a controller tells of its run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) growth: u64,
    /// Events that a slow consumer was not given.
    pub(crate) lagged: u64,
    /// What was not as it should be, in sentences.
    pub(crate) wrong: Vec<String>,
}

/// A running controller.
pub(crate) struct Controller {
    process: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Controller {
    pub(crate) fn spawn(workload: Workload, link: &str) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([COMMAND, workload.name, link])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().ok_or("the controller has no stdout")?;
        Ok(Self { process, lines: BufReader::new(stdout).lines() })
    }

    pub(crate) async fn under_way(&mut self) -> Result<()> {
        match self.lines.next_line().await? {
            Some(line) if line == UNDER_WAY => Ok(()),
            line => Err(format!("the controller said {line:?}").into()),
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let pid = self.process.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
        Ok(rustix::process::kill_process(pid.ok_or("the controller has ended")?, signal)?)
    }

    pub(crate) async fn report(mut self) -> Result<Report> {
        let mut said = String::new();
        while let Some(line) = self.lines.next_line().await? {
            match serde_json::from_str(&line) {
                Ok(report) => return Ok(report),
                Err(_) => said = format!("{said} {}", line.trim()),
            }
        }
        Err(format!("the controller ended without a report:{said}").into())
    }
}

/// The controller's side: `controller WORKLOAD LINK`.
pub(crate) async fn main(args: &[String]) -> Result<()> {
    let [workload, link] = args else { return Err("which workload, and which link?".into()) };
    let workload = WORKLOADS.iter().find(|known| known.name == workload).ok_or("no such workload")?;
    let (link, _) = LINKS.into_iter().find(|(_, name)| name == link).ok_or("no such link")?;
    let report = run(workload, link).await?;
    say(&serde_json::to_string(&report)?)
}

fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

async fn run(workload: &Workload, link: LinkPolicy) -> Result<Report> {
    let session = session(link).start().await?;
    call(&session).await?;
    memory::forget_peak()?;
    let before = memory::resident()?;
    let begin = Instant::now();
    let mut events = session.run_stream(workload.code);
    let (mut report, mut bytes, mut displays) = (Report::default(), 0_u64, 0_u64);
    let mut execution = None;
    while let Some(event) = events.next().await {
        match event? {
            Event::Stdout(text) => {
                if bytes == 0 {
                    say(UNDER_WAY)?;
                }
                bytes += text.len() as u64;
            }
            Event::Display { .. } => displays += 1,
            Event::Lagged { events } => report.lagged += events,
            Event::Done(done) => execution = Some(done),
            _ => {}
        }
    }
    report.seconds = begin.elapsed().as_secs_f64();
    report.growth = memory::peak()?.saturating_sub(before);
    drop(events);
    let execution = execution.ok_or("the stream ended without the execution")?;
    report.bytes = execution.stdout.total_bytes;
    if report.lagged == 0 {
        claim(&mut report, bytes == execution.stdout.total_bytes, &format!("events brought {bytes} bytes of text"));
        claim(&mut report, displays == workload.displays, &format!("events brought {displays} displays"));
    }
    check(workload, &execution, &mut report)?;
    session.stop().await?;
    Ok(report)
}

fn claim(report: &mut Report, holds: bool, otherwise: &str) {
    if !holds {
        report.wrong.push(otherwise.to_owned());
    }
}

/// Compares the execution, and the file that its long text was spilled to, with what the code wrote.
fn check(workload: &Workload, execution: &Execution, report: &mut Report) -> Result<()> {
    claim(report, execution.is_ok(), &format!("the execution ended with {}", execution.status));
    let expected: String = (0..workload.lines).map(workload.line).collect();
    let stdout = &execution.stdout;
    let total = expected.len() as u64;
    claim(report, stdout.total_bytes == total, &format!("total_bytes is {} for {total}", stdout.total_bytes));
    if stdout.truncated {
        let kept = 256 << 10;
        claim(report, stdout.text.starts_with(&expected[..kept]), "the head is wrong");
        claim(report, stdout.text.ends_with(&expected[expected.len() - kept..]), "the tail is wrong");
        let spilled = stdout.spill.as_ref().map(std::fs::read).transpose()?;
        claim(report, spilled.is_some_and(|spilled| spilled == expected.as_bytes()), "the spill file is wrong");
    } else {
        claim(report, stdout.text == expected, "the text is wrong");
    }
    let shown = execution.outputs.iter().filter_map(|output| match output {
        Output::DisplayData(bundle) => bundle.text().and_then(|text| text.parse::<u64>().ok()),
        _ => None,
    });
    claim(report, shown.eq(0..workload.displays), "displays are missing or out of order");
    let left_out = execution.outputs_left_out;
    claim(report, left_out == 0, &format!("{left_out} outputs were left out"));
    Ok(())
}

/// How long a controller may take, beyond the time that it is stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
