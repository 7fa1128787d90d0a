//! What a running execution tells as it happens.

use super::outcome::{Execution, PythonError};
use super::output::MimeBundle;

/// Something that happened during an execution, in the order of the kernel's messages.
///
/// It serialises to an object whose `event` names it in snake case: `{"event":"stdout","text":"…"}`,
/// `{"event":"display","data":{…},"metadata":{…},"display_id":null}`, `{"event":"error","ename":"…",…}`, and at the end
/// `{"event":"done","execution":{…}}`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The kernel took up the code.
    Started {
        /// The kernel's number of the cell.
        execution_count: Option<u32>,
    },
    /// Text on stdout.
    Stdout(String),
    /// Text on stderr.
    Stderr(String),
    /// A display.
    Display {
        /// The value.
        bundle: MimeBundle,
        /// Its id, by which a later update replaces it.
        display_id: Option<String>,
    },
    /// New content for every display with this id.
    UpdateDisplay {
        /// The new value.
        bundle: MimeBundle,
        /// The id.
        display_id: String,
    },
    /// The value of the last expression.
    Result {
        /// The value.
        bundle: MimeBundle,
        /// The kernel's number of the cell.
        execution_count: Option<u32>,
    },
    /// The code raised an exception.
    Error(PythonError),
    /// The outputs so far are to be cleared: at once, or when the next one comes.
    ClearOutput {
        /// Wait for the next output.
        wait: bool,
    },
    /// Somebody has paused the container, and the code stands still. Told once for each pause, some two seconds after the code last said something or
    /// its container was last known to go on; never if the engine cannot tell.
    ///
    /// The session is not lost: when the container goes on, so does the code, and nothing is missing. Its timeout runs on meanwhile, and when that
    /// is up the container is killed, for nothing in it can be interrupted.
    Paused {
        /// The container's name, for `docker unpause`.
        container: String,
    },
    /// The consumer was too slow and events were left out here; their text is counted in the final [`Execution`].
    Lagged {
        /// How many events.
        events: u64,
    },
    /// The end, always the last event.
    Done(Box<Execution>),
}

impl Event {
    /// About the memory that it takes while it waits to be read.
    pub(super) fn cost(&self) -> usize {
        let inside = match self {
            Self::Stdout(text) | Self::Stderr(text) => text.len(),
            Self::Display { bundle, display_id } => bundle.weight() + display_id.as_ref().map_or(0, String::len),
            Self::UpdateDisplay { bundle, display_id } => bundle.weight() + display_id.len(),
            Self::Result { bundle, .. } => bundle.weight(),
            Self::Error(PythonError { ename, evalue, traceback }) => {
                ename.len()
                    + evalue.len()
                    + traceback.iter().map(|part| size_of::<String>() + part.len()).sum::<usize>()
            }
            Self::Paused { container } => container.len(),
            Self::Started { .. } | Self::ClearOutput { .. } | Self::Lagged { .. } | Self::Done(_) => 0,
        };
        size_of::<Self>() + inside
    }
}
