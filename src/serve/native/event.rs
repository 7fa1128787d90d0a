//! The shapes of what a stream tells: the library and our runs write them.
#![expect(dead_code, reason = "they are written elsewhere; this describes what is written")]

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One event of a stream: the data of a server-sent event, or a line of NDJSON. The last one is `done`, or `failed`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The kernel took up the code.
    Started {
        execution_count: Option<u32>,
    },
    Stdout {
        text: String,
    },
    Stderr {
        text: String,
    },
    Display {
        #[schema(value_type = Object)]
        data: Value,
        #[schema(value_type = Object)]
        metadata: Value,
        display_id: Option<String>,
    },
    /// New content for every display with this id.
    UpdateDisplay {
        #[schema(value_type = Object)]
        data: Value,
        #[schema(value_type = Object)]
        metadata: Value,
        display_id: String,
    },
    /// The value of the last expression.
    Result {
        #[schema(value_type = Object)]
        data: Value,
        #[schema(value_type = Object)]
        metadata: Value,
        execution_count: Option<u32>,
    },
    /// The code raised an exception.
    Error {
        ename: String,
        evalue: String,
        traceback: Vec<String>,
        traceback_plain: Vec<String>,
    },
    /// The outputs so far are to be cleared: at once, or when the next one comes.
    ClearOutput {
        wait: bool,
    },
    /// Somebody has paused the container, and the code stands still.
    Paused {
        container: String,
    },
    /// So many events were left out here, because they were read too slowly; what is done has their text.
    Lagged {
        events: u64,
    },
    /// A block of a message begins. The events up to its end are of its cell or its script.
    BlockBegun {
        index: usize,
        language: String,
    },
    /// It has ended: a `BlockOutcome`.
    BlockEnded {
        index: usize,
        #[schema(value_type = Object)]
        outcome: Value,
    },
    /// The end: of a cell with its `execution`, an `Execution`; of a script or of blocks with their `outcome`, a `ScriptOutcome` or a `BlocksOutcome`.
    Done {
        #[schema(value_type = Option<Object>)]
        execution: Value,
        #[schema(value_type = Option<Object>)]
        outcome: Value,
    },
    /// This server failed, or the session was lost: what a refusal would say, had the answer not begun.
    Failed {
        #[schema(value_type = Object)]
        error: Value,
    },
}
