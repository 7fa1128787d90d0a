//! A test whose process is measured has it for itself.

use std::env;
use std::process::Command;

const ALONE: &str = "CELLBLOCK_TEST_ALONE";

/// Whether this is the process that the test has for itself. If it is not, the test has been run to its end in one.
///
/// There the allocator gives back what is freed, so that what a process takes is what it uses.
pub(crate) fn alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ALONE, "1");
    command.env("MALLOC_TRIM_THRESHOLD_", "131072").env("MALLOC_MMAP_THRESHOLD_", "131072");
    let status = command.status().unwrap();
    assert!(status.success(), "in a process of its own: {status}");
    false
}
