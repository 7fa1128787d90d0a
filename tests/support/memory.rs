//! How much memory this process takes.

use std::fs;

/// In KiB: now, and the most since [`forget_peak`].
pub(crate) fn resident() -> u64 {
    status("VmRSS:")
}

pub(crate) fn peak() -> u64 {
    status("VmHWM:")
}

/// From here on the peak counts anew.
pub(crate) fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the status");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
