//! What the bridge reports of itself, its kernel and the latest cell.

use std::time::Duration;

use serde::Deserialize;

/// How a kernel process ended.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct KernelExit {
    #[serde(default)]
    pub(crate) generation: u64,
    #[serde(default)]
    pub(crate) code: Option<i32>,
    #[serde(default)]
    pub(crate) signal: Option<i32>,
    #[serde(default)]
    pub(crate) oom: bool,
}

/// A kernel process of one generation; its key is in no `Debug`.
#[derive(Clone, Deserialize)]
pub(crate) struct Launched {
    pub(crate) generation: u64,
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) busy: bool,
}

impl std::fmt::Debug for Launched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launched")
            .field("generation", &self.generation)
            .field("busy", &self.busy)
            .finish_non_exhaustive()
    }
}

/// The answer to the first message.
#[derive(Debug, Deserialize)]
pub(crate) struct Hello {
    /// Jupyter's session id and the ZeroMQ identity, kept for the container's life.
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) kernel: Option<Launched>,
    #[serde(default)]
    pub(crate) last_exit: Option<KernelExit>,
    #[serde(default)]
    pub(crate) cell: Option<CellReport>,
}

/// What the bridge knows of the latest cell; its key is in no `Debug`.
#[derive(Deserialize)]
pub(crate) struct CellReport {
    /// The number of its recording.
    pub(crate) number: u64,
    state: String,
    /// A controller has had its result.
    #[serde(default)]
    pub(crate) delivered: bool,
    /// What the bridge did to it while nobody held the session.
    #[serde(default)]
    rung: Option<String>,
    #[serde(default)]
    deadline_ms: Option<u64>,
    /// The key of its messages, which that of a later kernel is not.
    #[serde(default)]
    pub(crate) key: String,
    /// How the kernel ended, if it ended during the cell.
    #[serde(default)]
    pub(crate) exit: Option<KernelExit>,
}

impl CellReport {
    pub(crate) fn is_running(&self) -> bool {
        self.state == "running"
    }

    /// Whether the bridge interrupted it, or restarted the kernel, because its time was up.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.rung.is_some()
    }

    pub(crate) fn kernel_was_restarted(&self) -> bool {
        self.rung.as_deref() == Some("kernel_restart")
    }

    /// What is left of its time.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.deadline_ms.map(Duration::from_millis)
    }
}

impl std::fmt::Debug for CellReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CellReport")
            .field("number", &self.number)
            .field("state", &self.state)
            .field("rung", &self.rung)
            .finish_non_exhaustive()
    }
}
