//! Controllers as processes of the built command, which can be killed.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a command ended; without a code it was killed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running command.
#[derive(Debug)]
pub(crate) struct Controller {
    child: Child,
    lines: Receiver<String>,
    stdout: String,
    stderr: Option<JoinHandle<String>>,
}

/// The command, in an environment that says nothing about colours, logs or directories.
pub(crate) fn cellblock<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellblock"));
    for variable in ["NO_COLOR", "CELLBLOCK_LOG", "XDG_STATE_HOME"] {
        command.env_remove(variable);
    }
    command.args(args);
    command
}

/// Runs the command to its end.
pub(crate) fn run<I, S>(args: I) -> Ended
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    Controller::spawn(cellblock(args)).ended()
}

impl Controller {
    pub(crate) fn start<I, S>(args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Self::spawn(cellblock(args))
    }

    /// Runs cells in a session, and takes hold of it for that.
    pub(crate) fn holding(session: &str, code: &str) -> Self {
        Self::start(["run", "--session", session, "-c", code])
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (sender, lines) = channel();
        let (stdout, mut stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { child, lines, stdout: String::new(), stderr: Some(stderr) }
    }

    /// Waits until it has printed this line.
    #[track_caller]
    pub(crate) fn until(&mut self, line: &str) {
        if !self.prints(line) {
            let _ = self.child.wait();
            let errors = self.errors();
            panic!("ended without printing {line:?}: {:?} {errors}", self.stdout);
        }
    }

    /// Waits until it has printed this line, or has ended without.
    #[track_caller]
    pub(crate) fn prints(&mut self, line: &str) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(printed) => {
                    self.stdout.push_str(&printed);
                    self.stdout.push('\n');
                    if printed == line {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("{line:?} not printed in time, but {:?}", self.stdout),
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it is sent");
    }

    /// Kills it as nothing can be helped against, and returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Ended {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.try_wait() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("it did not end in time: {:?}", self.stdout),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        for line in &self.lines {
            self.stdout.push_str(&line);
            self.stdout.push('\n');
        }
        Ended { code: status.code(), stdout: std::mem::take(&mut self.stdout), stderr: self.errors() }
    }

    fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its status")
    }

    fn errors(&mut self) -> String {
        self.stderr.take().map(|stderr| stderr.join().expect("no panic")).unwrap_or_default()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
