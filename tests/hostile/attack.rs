//! One attack, and what the host has to make of it.

use std::time::Duration;

use cellblock::{Death, Execution, LinkPolicy, Rung, State, Status};

/// What takes the sockets over; an attack's own lines follow it.
pub(crate) const HIJACK: &str = include_str!("hijack.py");

/// What must have become of the attacked cell.
#[derive(Debug, Clone)]
pub(crate) enum Expect {
    /// The guard cut the link for this reason, and a new kernel runs.
    Cut(&'static str),
    /// The kernel was given up because it closed a channel.
    Closed,
    /// Nothing has happened: the cell ended well, and this is all of its stdout.
    Unharmed(String),
    /// The cell ended in the kernel that still runs, as this says.
    Ended(fn(&Execution) -> bool),
    /// The time was up and the kernel was restarted.
    TimedOut,
    /// The kernel ended by itself.
    Died,
    /// The container is gone.
    Gone,
}

/// Who answers when the code asks for a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Caller {
    Nobody,
    Answers,
    Sleeps,
}

/// A cell that attacks.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    pub(crate) name: String,
    lines: String,
    pub(crate) expect: Expect,
    /// Of the cell; none where it is to be used up, as soon as the attack has begun.
    pub(crate) timeout: Option<Duration>,
    /// How long the whole answer may take.
    pub(crate) bound: Duration,
    /// It moves many megabytes: one of its kind at a time.
    pub(crate) heavy: bool,
    /// Who is asked for input.
    pub(crate) caller: Caller,
    /// The link that it needs.
    pub(crate) link: Option<LinkPolicy>,
}

impl Attack {
    /// An attack with these lines of Python, in which `k` is the hijacked kernel.
    pub(crate) fn new(name: impl Into<String>, lines: impl Into<String>, expect: Expect) -> Self {
        Self {
            name: name.into(),
            lines: lines.into(),
            expect,
            timeout: Some(Duration::from_secs(30)),
            bound: Duration::from_secs(20),
            heavy: false,
            caller: Caller::Nobody,
            link: None,
        }
    }

    /// Its cell gets little time, since it is to be used up.
    pub(crate) fn brief(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// It takes its time.
    pub(crate) fn patient(mut self) -> Self {
        self.timeout = Some(Duration::from_secs(60));
        self.bound = Duration::from_secs(90);
        self
    }

    pub(crate) fn asking(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// It attacks the relay, so there has to be one.
    pub(crate) fn on_relay(mut self) -> Self {
        self.link = Some(LinkPolicy::Relay);
        self
    }

    /// These lines come first.
    pub(crate) fn after(mut self, lines: &str) -> Self {
        self.lines = format!("{lines}\n{}", self.lines);
        self
    }

    pub(crate) fn heavy(mut self) -> Self {
        self.heavy = true;
        self.bound = Duration::from_secs(60);
        self
    }

    /// The whole cell. After the attack's lines the kernel goes on answering.
    pub(crate) fn code(&self) -> String {
        // JSON's strings are Python's.
        format!("{HIJACK}\nhijack().play({})\n", serde_json::Value::from(self.lines.as_str()))
    }

    /// What is wrong with the answer; nothing if nothing is.
    pub(crate) fn judge(&self, execution: &Execution) -> Option<String> {
        let right = match &self.expect {
            Expect::Cut(reason) => {
                execution.state == State::KernelRestarted
                    && matches!(&execution.status, Status::KernelDied(Death { reason: Some(said), .. })
                        if said.starts_with("the kernel ") && said.contains(reason))
            }
            Expect::Closed => {
                execution.state == State::KernelRestarted
                    && matches!(&execution.status, Status::KernelDied(Death { reason: Some(said), .. })
                        if said == "the kernel closed its channels")
            }
            Expect::Unharmed(stdout) => {
                execution.status == Status::Ok && execution.state == State::Kept && execution.stdout.text == *stdout
            }
            Expect::Ended(holds) => execution.state == State::Kept && holds(execution),
            Expect::TimedOut => {
                (&execution.status, execution.state, execution.rung)
                    == (&Status::TimedOut, State::KernelRestarted, Some(Rung::KernelRestart))
            }
            Expect::Died => {
                execution.state == State::KernelRestarted && matches!(execution.status, Status::KernelDied(_))
            }
            Expect::Gone => {
                execution.state == State::ContainerGone
                    && matches!(execution.status, Status::ContainerGone(_) | Status::TimedOut)
            }
        };
        let at_fault = execution.error().is_some_and(|error| error.ename == "AttackFailed");
        (!right || at_fault).then(|| {
            let stdout: String = execution.stdout.text.chars().take(200).collect();
            format!(
                "expected {:?}, and got {:?} with {:?}, rung {:?}, {} outputs left out, stdout {stdout:?}",
                self.expect, execution.status, execution.state, execution.rung, execution.outputs_left_out
            )
        })
    }
}
