//! The memory of this process, as Linux counts it.

use crate::support::Result;

/// Bytes resident now.
pub(crate) fn resident() -> Result<u64> {
    field("VmRSS:")
}

/// The most bytes resident since [`forget_peak`].
pub(crate) fn peak() -> Result<u64> {
    field("VmHWM:")
}

pub(crate) fn forget_peak() -> Result<()> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

fn field(name: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such field in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
