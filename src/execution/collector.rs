//! Collects the messages of one execution into an [`Execution`].

use std::time::Duration;

use futures_util::future::join;

use super::clock::KernelClock;
use super::content::Content;
use super::event::Event;
use super::outcome::{Execution, PythonError, Rung, State, Status, Timing, Usage};
use super::output::MimeBundle;
use super::outputs::{BundleKind, Outputs};
use super::spill::SpillDirectory;
use super::stream::{StreamName, TextStream};

/// How much of an execution's output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of text of each stream: half of them for its head, half for its tail.
    pub(crate) text: usize,
    /// How many displays and results, and how many stretches of text between them.
    pub(crate) outputs: usize,
    /// Bytes of all displays and results together, as they lie in memory.
    pub(crate) output_bytes: usize,
    /// Bytes of one spill file.
    pub(crate) spill_file: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: 1 << 20, outputs: 32_768, output_bytes: 64 << 20, spill_file: 256 << 20 }
    }
}

/// What the driver knows of an execution's end, beyond the kernel's messages.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Overrides what the messages tell.
    pub(crate) status: Option<Status>,
    pub(crate) state: State,
    pub(crate) rung: Option<Rung>,
    pub(crate) queued: Duration,
    pub(crate) total: Duration,
    pub(crate) usage: Usage,
}

impl Ending {
    /// Of an execution of which nothing but its messages is known.
    pub(crate) fn as_told() -> Self {
        Self {
            status: None,
            state: State::Kept,
            rung: None,
            queued: Duration::ZERO,
            total: Duration::ZERO,
            usage: Usage::default(),
        }
    }
}

/// Collects the messages of one execution. The driver tells by their parent which are its own.
#[derive(Debug)]
pub(crate) struct Collector {
    limits: Limits,
    stdout: TextStream,
    stderr: TextStream,
    outputs: Outputs,
    result: Option<MimeBundle>,
    error: Option<PythonError>,
    reply: Option<Reply>,
    execution_count: Option<u32>,
    clock: KernelClock,
    idle: bool,
    asks_exit: bool,
    /// They are shown at the end: the reply, which holds them, can come before the output that they follow.
    pages: Vec<MimeBundle>,
    unreadable: u64,
}

#[derive(Debug)]
enum Reply {
    Ok,
    Error(PythonError),
    Aborted,
    /// It came, but does not say which.
    Unknown,
}

impl Collector {
    pub(crate) fn new(limits: Limits, spills: Option<SpillDirectory>) -> Self {
        Self {
            limits,
            stdout: TextStream::new(StreamName::Stdout, limits, spills.clone()),
            stderr: TextStream::new(StreamName::Stderr, limits, spills),
            outputs: Outputs::new(limits.outputs, limits.output_bytes),
            result: None,
            error: None,
            reply: None,
            execution_count: None,
            clock: KernelClock::default(),
            idle: false,
            asks_exit: false,
            pages: Vec::new(),
            unreadable: 0,
        }
    }

    /// Takes an IOPub message whose parent is this execution, and returns what to tell whoever follows it.
    pub(crate) fn iopub(&mut self, msg_type: &str, content: &[u8], date: &str) -> Option<Event> {
        let mut repaired = String::new();
        let content = match Content::read(content, &mut repaired) {
            Ok(content) => content,
            Err(error) => {
                self.unreadable += 1;
                // At each doubling: a kernel that sends nothing else does not fill the log.
                if self.unreadable.is_power_of_two() {
                    tracing::warn!(count = self.unreadable, msg_type, %error, "left out a message with unreadable content");
                }
                self.left_out(msg_type);
                return None;
            }
        };
        match msg_type {
            "status" => self.status(&content, date),
            "execute_input" => {
                self.execution_count = content.execution_count().or(self.execution_count);
                Some(Event::Started { execution_count: content.execution_count() })
            }
            "stream" => self.stream(&content),
            "display_data" => self.bundle(&content, BundleKind::Display),
            "execute_result" => {
                self.bundle(&content, BundleKind::Result { execution_count: content.execution_count() })
            }
            "update_display_data" => self.update(&content),
            "error" => {
                let error = content.error();
                self.outputs.error(error.clone());
                self.error = Some(error.clone());
                Some(Event::Error(error))
            }
            "clear_output" => {
                self.outputs.clear(content.wait());
                Some(Event::ClearOutput { wait: content.wait() })
            }
            _ => None,
        }
    }

    fn status(&mut self, content: &Content<'_>, date: &str) -> Option<Event> {
        match content.execution_state().as_deref() {
            Some("busy") => self.clock.busy(date),
            Some("idle") => {
                self.clock.idle(date);
                self.idle = true;
            }
            _ => {}
        }
        None
    }

    fn stream(&mut self, content: &Content<'_>) -> Option<Event> {
        let text = content.text().filter(|text| !text.is_empty())?;
        Some(self.text(content.name().as_deref() == Some("stderr"), text))
    }

    /// Appends a line of ours to stderr.
    pub(crate) fn note(&mut self, line: &str) -> Event {
        self.text(true, format!("{line}\n"))
    }

    fn text(&mut self, to_stderr: bool, text: String) -> Event {
        let stream = if to_stderr { &mut self.stderr } else { &mut self.stdout };
        let place = stream.push(&text);
        self.outputs.stream(stream.name(), place);
        if to_stderr { Event::Stderr(text) } else { Event::Stdout(text) }
    }

    fn bundle(&mut self, content: &Content<'_>, kind: BundleKind) -> Option<Event> {
        let weight = content.bundle_weight();
        let admitted = self.outputs.admit(kind, weight);
        if weight > self.limits.output_bytes {
            return None;
        }
        let (bundle, display_id) = (content.bundle(), content.display_id());
        if admitted {
            if let BundleKind::Result { .. } = kind {
                self.result = Some(bundle.clone());
            }
            self.outputs.bundle(kind, bundle.clone(), display_id.clone(), weight);
        }
        Some(match kind {
            BundleKind::Display => Event::Display { bundle, display_id },
            BundleKind::Result { execution_count } => {
                self.execution_count = execution_count.or(self.execution_count);
                Event::Result { bundle, execution_count }
            }
        })
    }

    fn update(&mut self, content: &Content<'_>) -> Option<Event> {
        let display_id = content.display_id()?;
        let weight = content.bundle_weight();
        if weight > self.limits.output_bytes {
            self.outputs.leave_out();
            return None;
        }
        let bundle = content.bundle();
        self.outputs.update(&display_id, &bundle, weight);
        Some(Event::UpdateDisplay { bundle, display_id })
    }

    /// Takes the `execute_reply`.
    pub(crate) fn reply(&mut self, content: &[u8]) {
        let mut repaired = String::new();
        let content = match Content::read(content, &mut repaired) {
            Ok(content) => content,
            Err(error) => {
                tracing::warn!(%error, "an execute_reply is unreadable");
                self.left_out("execute_reply");
                return;
            }
        };
        self.execution_count = content.execution_count().or(self.execution_count);
        self.reply = Some(match content.status().as_deref() {
            Some("ok") => Reply::Ok,
            Some("error") => Reply::Error(content.error()),
            Some("aborted" | "abort") => Reply::Aborted,
            _ => Reply::Unknown,
        });
        self.asks_exit = content.asks_exit();
        self.pages = content.pages(self.limits.output_bytes);
    }

    /// Makes displays of a pager's pages (`object?`), once there is no more output.
    pub(crate) fn show_pages(&mut self) -> Vec<Event> {
        let pages = std::mem::take(&mut self.pages);
        pages.into_iter().filter_map(|page| self.page(page)).collect()
    }

    fn page(&mut self, bundle: MimeBundle) -> Option<Event> {
        let weight = bundle.weight();
        self.outputs.admit(BundleKind::Display, weight).then(|| {
            self.outputs.bundle(BundleKind::Display, bundle.clone(), None, weight);
            Event::Display { bundle, display_id: None }
        })
    }

    /// Takes a message whose content did not arrive, or cannot be read.
    pub(crate) fn left_out(&mut self, msg_type: &str) {
        match msg_type {
            "execute_reply" => self.reply = Some(Reply::Unknown),
            "error" => {
                self.error.get_or_insert_default();
                self.outputs.leave_out();
            }
            "stream" | "display_data" | "update_display_data" | "execute_result" => self.outputs.leave_out(),
            _ => {}
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// The class of the exception that the code ended with, if it did.
    pub(crate) fn ename(&self) -> Option<&str> {
        match (&self.reply, &self.error) {
            (Some(Reply::Error(error)), _) | (Some(Reply::Unknown) | None, Some(error)) => Some(&error.ename),
            _ => None,
        }
    }

    /// The code called `exit()`: the kernel is about to end, and nothing is wrong.
    pub(crate) fn asks_exit(&self) -> bool {
        self.asks_exit
    }

    pub(crate) fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// The execution as it is now. Where text was spilled, waits until the spill file has it all; otherwise the
    /// first poll completes it.
    pub(crate) async fn finish(mut self, ending: Ending) -> Execution {
        self.show_pages();
        let ((stdout, stdout_text), (stderr, stderr_text)) = join(self.stdout.finish(), self.stderr.finish()).await;
        let told = match (self.reply, self.error) {
            (Some(Reply::Aborted), _) => Status::Aborted,
            (Some(Reply::Error(reply)), error) => Status::Error(more_telling(reply, error.unwrap_or_default())),
            (Some(Reply::Ok), _) | (_, None) => Status::Ok,
            (Some(Reply::Unknown) | None, Some(error)) => Status::Error(error),
        };
        Execution {
            status: ending.status.unwrap_or(told),
            state: ending.state,
            rung: ending.rung,
            stdout: stdout_text,
            stderr: stderr_text,
            result: self.result,
            outputs_left_out: self.outputs.left_out(),
            outputs: self.outputs.finish(&stdout, &stderr),
            execution_count: self.execution_count,
            timing: Timing { queued: ending.queued, kernel: self.clock.elapsed(), total: ending.total },
            usage: ending.usage,
        }
    }
}

/// The reply's account of an exception, unless only IOPub's says anything.
fn more_telling(reply: PythonError, iopub: PythonError) -> PythonError {
    if reply.ename.is_empty() && reply.traceback.is_empty() { iopub } else { reply }
}
