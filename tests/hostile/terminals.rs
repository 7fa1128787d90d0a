//! What of a hostile kernel's strings the command lets through to a terminal.

use std::process::{Command, Stdio};

use crate::attack::HIJACK;
use crate::attacks::terminal;
use crate::places::{Place, skip};

/// Sequences that do something to a terminal. The command's own output has none of these.
const HARMFUL: [&str; 12] = [
    "\x1b]",
    "\x1bP",
    "\x1b_",
    "\x1bc",
    "\x1b[2J",
    "\x1b[5;5H",
    "\x1b[6n",
    "\x1b[?1049h",
    "\u{9b}",
    "\u{9d}",
    "\x07",
    "\x08",
];

/// Runs each in `cellblock run` on a terminal of its own.
pub(crate) fn all(place: &Place) {
    let Some(command) = option_env!("CARGO_BIN_EXE_cellblock") else { return };
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("no script, which makes terminals", "CELLBLOCK_REQUIRE_ENGINE").unwrap_or_default();
    }
    for (name, lines) in terminal::scripts() {
        let code = format!("{HIJACK}\nhijack().play({})", serde_json::Value::from(lines));
        let line = "exec \"$COMMAND\" run --timeout 20s --image \"$IMAGE\" -c \"$CODE\"";
        let output = Command::new("script")
            .args(["-qec", line, "/dev/null"])
            .env("COMMAND", command)
            .env("IMAGE", place.image())
            .env("CODE", code)
            .current_dir(tempfile::tempdir().unwrap().path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8(output.stdout).expect("text");
        assert!(shown.contains("shown"), "{name}: the attack was not played: {shown:?}");
        for harmful in HARMFUL {
            assert!(!shown.contains(harmful), "{name}: {harmful:?} reached the terminal: {shown:?}");
        }
    }
}
