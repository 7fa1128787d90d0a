//! What one of the sessions does: cells of every kind, in an order that its number decides.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cellblock::{Execution, Session, State, Status};

/// What a session's cells came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How often the kernel, or a cell, was ended.
    pub(crate) ends: u32,
    /// Where long outputs were kept.
    pub(crate) spills: Vec<PathBuf>,
}

/// Runs cells and checks every answer.
pub(crate) async fn run(session: &Session, number: u64, cells: u32) -> Outcome {
    let mut random = Random(number);
    let mut outcome = Outcome::default();
    // What the kernel's variable must be; none in a fresh kernel.
    let mut total = None;
    for cell in 0..cells {
        let begun = total.unwrap_or(0);
        if total.is_none() {
            let first =
                session.run("import os, sys, time\nfresh = 'total' not in globals()\ntotal = 0\nfresh").await.unwrap();
            assert_eq!((first.text(), first.state), (Some("True"), State::Kept), "session {number}: {first:?}");
        }
        let what = random.below(10);
        let told = |execution: &Execution| format!("session {number}, cell {cell} of kind {what}: {execution:?}");
        total = match what {
            0 => {
                let (code, signal) = (1 + random.below(200), random.below(2) == 1);
                let end = if signal { "os.kill(os.getpid(), 9)".to_owned() } else { format!("os._exit({code})") };
                let execution = session.run(end).await.unwrap();
                let Status::KernelDied(death) = &execution.status else { panic!("{}", told(&execution)) };
                let expected = if signal { (None, Some(9)) } else { (i32::try_from(code).ok(), None) };
                assert_eq!((death.code, death.signal), expected, "{}", told(&execution));
                assert_eq!(execution.state, State::KernelRestarted, "{}", told(&execution));
                outcome.ends += 1;
                None
            }
            1 => {
                let running = session.run("print('asleep', flush=True)\ntime.sleep(60)");
                let execution = running.timeout(Duration::from_millis(500 + random.below(500))).await.unwrap();
                assert_eq!(execution.status, Status::TimedOut, "{}", told(&execution));
                outcome.ends += 1;
                match execution.state {
                    State::Kept => Some(begun),
                    State::KernelRestarted => None,
                    _ => panic!("{}", told(&execution)),
                }
            }
            2 => {
                let execution = session.run("total / 0").await.unwrap();
                let raised = execution.error().is_some_and(|error| error.ename == "ZeroDivisionError");
                assert!(raised && execution.state == State::Kept, "{}", told(&execution));
                Some(begun)
            }
            3 | 4 => {
                let lines = 1 + random.below(3000);
                let code = format!("for line in range({lines}): print({cell}, line)\nprint('end', file=sys.stderr)");
                let execution = session.run(code).await.unwrap();
                let expected: String = (0..lines).map(|line| format!("{cell} {line}\n")).collect();
                assert!(execution.is_ok() && execution.state == State::Kept, "{}", told(&execution));
                assert_eq!(execution.stdout.total_bytes, expected.len() as u64, "{}", told(&execution));
                assert_eq!(execution.stderr.text, "end\n", "{}", told(&execution));
                if execution.stdout.truncated {
                    let spill = execution.stdout.spill.clone().expect("the whole text is kept");
                    assert!(fs::read_to_string(&spill).unwrap() == expected, "{}", told(&execution));
                    outcome.spills.push(spill);
                } else {
                    assert!(execution.stdout.text == expected, "{}", told(&execution));
                }
                Some(begun)
            }
            _ => {
                let sleep = random.below(150);
                let code = format!("time.sleep({sleep} / 1000)\ntotal += {what}\ntotal");
                let execution = session.run(code).await.unwrap();
                assert!(execution.is_ok() && execution.state == State::Kept, "{}", told(&execution));
                let sum = begun + what;
                assert_eq!(execution.text(), Some(sum.to_string().as_str()), "{}", told(&execution));
                Some(sum)
            }
        };
    }
    outcome
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
