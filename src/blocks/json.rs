//! The JSON form of what became of a message's blocks.

use serde::{Serialize, Serializer};

use super::outcome::{BlockOutcome, BlockResult, BlocksOutcome};
use crate::execution::VERSION;
use crate::{Execution, ScriptOutcome};

impl Serialize for BlocksOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a> {
            v: u32,
            exit_code: i32,
            output: &'a str,
            output_files: &'a [String],
            code_files: &'a [String],
            blocks: &'a [BlockOutcome],
        }
        Form {
            v: VERSION,
            exit_code: self.exit_code,
            output: &self.output,
            output_files: &self.output_files,
            code_files: &self.code_files,
            blocks: &self.blocks,
        }
        .serialize(serializer)
    }
}

impl Serialize for BlockOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a> {
            language: &'a str,
            result: &'a str,
            exit_code: Option<i32>,
            output: &'a str,
            code_file: Option<&'a str>,
            output_files: &'a [String],
            execution: Option<&'a Execution>,
            script: Option<&'a ScriptOutcome>,
            reason: Option<&'a str>,
        }
        let output = self.output();
        let (result, execution, script, reason) = match &self.result {
            BlockResult::Cell(execution) => ("cell", Some(&**execution), None, None),
            BlockResult::Script(outcome) => ("script", None, Some(&**outcome), None),
            BlockResult::Saved => ("saved", None, None, None),
            BlockResult::Refused(_) => ("refused", None, None, Some(output.as_str())),
            BlockResult::Failed(_) => ("failed", None, None, Some(output.as_str())),
        };
        Form {
            language: &self.language,
            result,
            exit_code: self.exit_code(),
            output: &output,
            code_file: self.code_file.as_deref(),
            output_files: &self.output_files,
            execution,
            script,
            reason,
        }
        .serialize(serializer)
    }
}
