//! The shapes of what came of an execution: the library writes them.
#![expect(dead_code, reason = "the library writes them; this describes what it writes")]

use serde_json::Value;
use utoipa::ToSchema;

/// One execution of a cell: what came of the code, and what is true of the session after it.
#[derive(ToSchema)]
pub(super) struct Execution {
    /// The version of this form.
    v: u32,
    /// How it ended.
    status: Status,
    /// The exception, where one ended it.
    error: Option<PythonError>,
    /// How the kernel ended, where it did.
    #[schema(value_type = Option<Object>)]
    death: Option<Value>,
    /// How the container ended, where it did.
    reason: Option<String>,
    /// What is true of variables and files after it.
    state: State,
    /// How far the interrupt ladder had to be climbed.
    rung: Option<Rung>,
    stdout: Text,
    stderr: Text,
    /// The last expression's value.
    result: Option<MimeBundle>,
    /// All outputs in their order, in nbformat's shapes.
    #[schema(value_type = Vec<Object>)]
    outputs: Vec<Value>,
    outputs_left_out: u64,
    execution_count: Option<u32>,
    timing: Timing,
    usage: Usage,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum Status {
    Ok,
    Error,
    TimedOut,
    Interrupted,
    Aborted,
    KernelDied,
    ContainerGone,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum State {
    Kept,
    KernelRestarted,
    ContainerGone,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum Rung {
    Interrupt,
    KernelRestart,
    ContainerKill,
}

#[derive(ToSchema)]
struct PythonError {
    ename: String,
    evalue: String,
    /// With ANSI colours.
    traceback: Vec<String>,
    traceback_plain: Vec<String>,
}

/// Text within the limits of its capture.
#[derive(ToSchema)]
struct Text {
    text: String,
    total_bytes: u64,
    truncated: bool,
    /// Null here: the server's own path.
    spill: Option<String>,
    spill_bytes: Option<u64>,
}

/// Representations by MIME type.
#[derive(ToSchema)]
struct MimeBundle {
    #[schema(value_type = Object)]
    data: Value,
    #[schema(value_type = Object)]
    metadata: Value,
}

/// Microseconds.
#[derive(ToSchema)]
struct Timing {
    queued_us: u64,
    kernel_us: Option<u64>,
    total_us: u64,
}

#[derive(ToSchema)]
struct Usage {
    cpu_us: Option<u64>,
    memory_bytes: Option<u64>,
    memory_peak_bytes: Option<u64>,
}

/// What came of a script or a program.
#[derive(ToSchema)]
pub(super) struct ScriptOutcome {
    v: u32,
    status: ScriptStatus,
    code: Option<i32>,
    signal: Option<i32>,
    reason: Option<String>,
    /// One number, by the shell's conventions.
    exit_code: i32,
    state: State,
    /// While it ran, the memory limit ended a process of the container.
    out_of_memory: bool,
    stdout: Text,
    stderr: Text,
    timing: ScriptTiming,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum ScriptStatus {
    Exited,
    Signaled,
    TimedOut,
    Interrupted,
    Lost,
    ContainerGone,
}

/// Microseconds.
#[derive(ToSchema)]
struct ScriptTiming {
    starting_us: u64,
    running_us: Option<u64>,
    total_us: u64,
}

/// What became of the blocks of a message.
#[derive(ToSchema)]
pub(super) struct BlocksOutcome {
    v: u32,
    /// That of the last block that was run or refused.
    exit_code: i32,
    /// What the blocks have said, joined.
    output: String,
    output_files: Vec<String>,
    code_files: Vec<String>,
    blocks: Vec<BlockOutcome>,
}

#[derive(ToSchema)]
struct BlockOutcome {
    language: String,
    result: BlockResult,
    exit_code: Option<i32>,
    output: String,
    code_file: Option<String>,
    output_files: Vec<String>,
    execution: Option<Execution>,
    script: Option<ScriptOutcome>,
    /// Why it was refused, or failed.
    reason: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
enum BlockResult {
    Cell,
    Script,
    Saved,
    Refused,
    Failed,
}
