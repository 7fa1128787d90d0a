//! An outcome in words.

use std::time::Duration;

use cellblock::{Execution, Rung, ScriptOutcome, ScriptStatus, State, Status};

/// What to say about an execution beside its outputs; nothing for one that simply ran or simply failed.
pub(crate) fn describe(execution: &Execution) -> Option<String> {
    let what = match &execution.status {
        Status::Ok | Status::Error(_) if execution.state == State::Kept => return None,
        Status::Ok | Status::Error(_) => String::new(),
        Status::TimedOut => match execution.rung {
            None | Some(Rung::Interrupt) => format!("timed out after {}", seconds(execution.timing.total)),
            _ => format!("timed out after {} and did not heed the interrupt", seconds(execution.timing.total)),
        },
        // Who ended it did so to restart it, and says so.
        Status::KernelDied(death) if death.reason.as_deref().is_some_and(|reason| reason.contains("restarted")) => {
            return Some(format!("{death}: variables are gone, files are kept"));
        }
        Status::KernelDied(death) if death.reason.is_some() => death.to_string(),
        Status::ContainerGone(reason) if !reason.is_empty() => {
            return Some(format!("{reason}: variables and files are gone"));
        }
        status => status.to_string(),
    };
    let state = state(execution.state);
    Some(if what.is_empty() { state.to_owned() } else { format!("{what}; {state}") })
}

/// What to say about a script beside its output; nothing for one that simply ended.
pub(crate) fn describe_script(outcome: &ScriptOutcome) -> Option<String> {
    let what = match &outcome.status {
        ScriptStatus::Exited(_) | ScriptStatus::Signaled(_) if outcome.out_of_memory => {
            format!("{}; the memory limit ended a process", outcome.status)
        }
        ScriptStatus::Exited(_) => return None,
        ScriptStatus::TimedOut => format!("timed out after {}", seconds(outcome.timing.total)),
        ScriptStatus::ContainerGone(reason) => format!("{reason}: variables and files are gone"),
        status => status.to_string(),
    };
    Some(what)
}

/// What is left of variables and files.
pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Kept => "variables are kept",
        State::KernelRestarted => "the kernel was restarted: variables are gone, files are kept",
        State::ContainerGone => "the container is gone: variables and files are gone",
        _ => "what is left of variables and files is unknown",
    }
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs_f64() {
        s if s < 10.0 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_millis(1249)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(90)), "90 s");
    }
}
