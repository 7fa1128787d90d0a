//! What a container uses, read from its control group on this machine.
//!
//! The host reads it, not the container: nothing in it can be forged from inside, and it costs a call some microseconds instead of a round trip.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::execution::Usage;

/// The control group of a container on this machine. Its files stay open: finding them again would cost each call more than all else here.
#[derive(Debug)]
pub(super) struct Cgroup {
    cpu: CpuTime,
    memory: Option<File>,
    memory_peak: Option<File>,
}

#[derive(Debug)]
enum CpuTime {
    /// v1's `cpuacct.usage`.
    Nanoseconds(Option<File>),
    /// v2's `cpu.stat`.
    Stat(Option<File>),
}

impl Cgroup {
    /// Finds it by the pid that the engine tells. That number may belong to another machine: the group's path must name the container.
    pub(super) fn of_container(pid: u32, id: &str) -> Option<Self> {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let root = Path::new("/sys/fs/cgroup");
        let find = |controller: &str| {
            groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':');
                let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
                (controllers.split(',').any(|name| name == controller) && path.contains(id))
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let open = |path: &Path, file: &str| File::open(path.join(file)).ok();
        if let (Some(cpu), Some(memory)) = (find("cpuacct"), find("memory")) {
            let (cpu, memory) = (root.join("cpuacct").join(cpu), root.join("memory").join(memory));
            return Some(Self {
                cpu: CpuTime::Nanoseconds(open(&cpu, "cpuacct.usage")),
                memory: open(&memory, "memory.usage_in_bytes"),
                memory_peak: open(&memory, "memory.max_usage_in_bytes"),
            });
        }
        let group = root.join(find("")?);
        Some(Self {
            cpu: CpuTime::Stat(open(&group, "cpu.stat")),
            memory: open(&group, "memory.current"),
            memory_peak: open(&group, "memory.peak"),
        })
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            cpu: match &self.cpu {
                CpuTime::Nanoseconds(file) => number(file, "").map(Duration::from_nanos),
                CpuTime::Stat(file) => number(file, "usage_usec ").map(Duration::from_micros),
            },
            memory: number(&self.memory, ""),
            memory_peak: number(&self.memory_peak, ""),
        }
    }
}

/// The number that stands behind `name` at the beginning of a line near the file's start.
fn number(file: &Option<File>, name: &str) -> Option<u64> {
    let mut text = [0; 512];
    let read = file.as_ref()?.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..read)?).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}
