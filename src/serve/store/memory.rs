//! How much memory this machine has left to give.

use std::fs;

/// Bytes that can be had without swapping, of the machine and of our own control group; none where nothing tells.
pub(super) fn available() -> Option<u64> {
    let machine = machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(own_group().map_or(machine, |group| machine.min(group)))
}

fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// What the server's container, if it runs in one, has left. Its page cache counts as used: an estimate on the safe side.
fn own_group() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max")?;
    Some(limit.saturating_sub(number("/sys/fs/cgroup/memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_estimate_is_read() {
        assert_eq!(machine("MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n"), Some(1 << 20));
        assert_eq!(machine("MemTotal: 100 kB\n"), None);
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
