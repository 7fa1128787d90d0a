//! The same blocks as TapeAgents' executor carries them out: what it gives, but where we say why not.

use std::time::Duration;

use cellblock::{CodeBlock, Policy, PythonMode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::lab::{Lab, tests};

tests! {
    python: [
        blocks_come_to_what_tapeagents_makes_of_them,
        what_we_do_otherwise_is_told,
    ]
}

/// A case of `tapeagents_runs.py`.
#[derive(Deserialize)]
struct Case {
    name: String,
    blocks: Vec<(String, String)>,
    timeout: Option<u64>,
    theirs: Map<String, Value>,
    #[serde(default)]
    ours: Map<String, Value>,
}

async fn blocks_come_to_what_tapeagents_makes_of_them(lab: &Lab) {
    carry_out(lab, |case| case.ours.is_empty()).await;
}

async fn what_we_do_otherwise_is_told(lab: &Lab) {
    carry_out(lab, |case| !case.ours.is_empty()).await;
}

async fn carry_out(lab: &Lab, chosen: impl Fn(&Case) -> bool) {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../oracle/tapeagents_runs.json")).expect("cases");
    let session = lab.session().await;
    let policy = Policy::default().python(PythonMode::File);
    for Case { name, blocks, timeout, theirs, ours } in cases.into_iter().filter(chosen) {
        let blocks: Vec<_> = blocks.into_iter().map(|(language, code)| CodeBlock::new(code, language)).collect();
        let timeout = Duration::from_secs(timeout.unwrap_or(60));
        let outcome = session.run_blocks(&blocks, &policy).timeout(timeout).await.expect("the call goes well");
        let outcome = serde_json::to_value(&outcome).expect("JSON");
        for field in ["exit_code", "output", "output_files", "code_files"] {
            let expected = ours.get(field).or(theirs.get(field)).expect("an answer");
            assert_eq!(&outcome[field], expected, "{name}: {field}");
        }
        for (field, value) in &ours {
            assert_ne!(theirs.get(field), Some(value), "{name}: that is no departure");
        }
    }
}
