//! One execution as HTML.

use cellblock::{BlockOutcome, BlockResult, Execution, ScriptOutcome, ScriptStatus, State, Status};
use maud::{Markup, html};

use super::output::{cut, output, stream};
use super::units;
use crate::serve::runs::{End, Outcome, Record, Work};

/// How it stands: a class for the style, and a word.
fn standing(record: &Record, end: Option<&End>) -> (&'static str, String) {
    match end {
        None if record.started().is_some() => ("running", "running".to_owned()),
        None => ("waiting", "waiting".to_owned()),
        Some(End::Canceled) => ("stopped", "canceled".to_owned()),
        Some(End::Failed(_)) => ("failed", "failed".to_owned()),
        Some(End::Done(outcome)) => {
            let class = match outcome.word() {
                "ok" => "ok",
                "interrupted" | "timed_out" | "aborted" => "stopped",
                _ => "failed",
            };
            let word = match outcome {
                Outcome::Script(script) if !matches!(script.status, ScriptStatus::Exited(0)) => {
                    script.status.to_string()
                }
                _ => outcome.word().replace('_', " "),
            };
            (class, word)
        }
    }
}

pub(super) fn cell(record: &Record) -> Markup {
    let end = record.end();
    let (class, word) = standing(record, end.as_ref());
    let (code, left_out, rest) = cut_code(record);
    html! {
        article #{ "cell-" (record.id) } class={ "cell " (class) } {
            header {
                span.count { (count(record, end.as_ref())) }
                span class={ "pill " (class) } { (word) }
                span.when {
                    @if let Some(End::Done(outcome)) = &end { (units::took(outcome.total())) " · " }
                    (units::moment(record.submitted))
                }
            }
            pre.code tabindex="0" {
                code {
                    (code)
                    @if left_out > 0 { span.left-out { "\n… " (units::size(left_out as u64)) " not shown here …\n" } (rest) }
                }
            }
            div.outputs {
                @match &end {
                    None => @for shown in record.outputs() { (output(&shown)) },
                    Some(End::Canceled) => p.note { "It was interrupted, or whoever had asked for it went away." },
                    Some(End::Failed(refusal)) => p.note { (refusal.message()) },
                    Some(End::Done(Outcome::Cell(execution))) => (of_cell(execution)),
                    Some(End::Done(Outcome::Script(script))) => (of_script(script)),
                    Some(End::Done(Outcome::Blocks(outcome, _))) => @for block in &outcome.blocks { (of_block(block)) },
                }
            }
        }
    }
}

fn cut_code(record: &Record) -> (String, usize, String) {
    let text = record.work.text();
    let (head, left_out, tail) = cut(&text);
    (head.to_owned(), left_out, tail.to_owned())
}

/// The kernel's number of a cell; a prompt for what runs beside the kernel.
fn count(record: &Record, end: Option<&End>) -> String {
    match (&record.work, end) {
        (Work::Cell(_), Some(End::Done(Outcome::Cell(execution)))) => {
            execution.execution_count.map_or_else(|| "[ ]".to_owned(), |count| format!("[{count}]"))
        }
        (Work::Cell(_), None) => "[*]".to_owned(),
        (Work::Cell(_), _) => "[ ]".to_owned(),
        (Work::Blocks { .. }, _) => "blocks".to_owned(),
        _ => "$".to_owned(),
    }
}

fn of_cell(execution: &Execution) -> Markup {
    html! {
        @for shown in &execution.outputs { (output(shown)) }
        @if execution.outputs_left_out > 0 {
            p.left-out { (execution.outputs_left_out) " more outputs were left out" }
        }
        @match &execution.status {
            Status::KernelDied(_) | Status::ContainerGone(_) => p.note { (execution.status) "." },
            _ => {},
        }
        @match execution.state {
            State::KernelRestarted => p.note { "A new kernel runs: variables are gone, files are kept." },
            State::ContainerGone => p.note { "Variables and files are gone." },
            _ => {},
        }
    }
}

fn of_script(script: &ScriptOutcome) -> Markup {
    html! { (stream("stdout", &script.stdout.text)) (stream("stderr", &script.stderr.text)) }
}

fn of_block(block: &BlockOutcome) -> Markup {
    let said = match &block.result {
        BlockResult::Cell(execution) => of_cell(execution),
        BlockResult::Script(script) => of_script(script),
        BlockResult::Refused(refusal) => html! { p.note { (refusal) "." } },
        BlockResult::Failed(error) => html! { p.note { (error) "." } },
        _ => html! {},
    };
    html! {
        @if let Some(file) = &block.code_file { p.left-out { (file) } }
        (said)
    }
}
