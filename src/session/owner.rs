//! Which process started a session, in a form that another one can check.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A process of one machine, one boot and one pid namespace, by its pid and start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// Machine, boot and pid namespace: only where they are ours does a pid mean anything to us.
    place: String,
    pid: u32,
    started: u64,
}

impl Owner {
    /// This process. None where `/proc` does not tell.
    pub(super) fn current() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { place: place()?, pid, started: started(pid)? })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplitn(3, ' ');
        let (started, pid, place) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { place: place.to_owned(), pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Whether this process could tell if that one is gone.
    pub(super) fn is_of_this_place(&self) -> bool {
        place().is_some_and(|place| place == self.place)
    }

    /// Whether the process has ended; its pid may be another's by now. Means nothing for one of another place.
    pub(super) fn is_gone(&self) -> bool {
        started(self.pid) != Some(self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.place, self.pid, self.started)
    }
}

fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(format!("{}/{}/{namespace}", machine.trim(), boot.trim()))
}

/// The start time of a process in clock ticks since boot: field 22 of its `stat` (proc_pid_stat(5)).
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name, may hold spaces and parentheses.
    stat.get(stat.rfind(')')? + 2..)?.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_again_and_not_gone() {
        let ours = Owner::current().unwrap();
        let read = Owner::parse(&ours.to_string()).unwrap();
        assert_eq!(read, ours);
        assert!(read.is_of_this_place() && !read.is_gone());
    }

    #[test]
    fn a_process_that_has_ended_is_gone_though_its_pid_may_be_taken() {
        let ours = Owner::current().unwrap();
        assert!(Owner { started: ours.started + 1, ..ours.clone() }.is_gone());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let theirs = Owner { pid: child.id(), started: started(child.id()).unwrap(), ..ours };
        child.wait().unwrap();
        assert!(theirs.is_gone());
    }

    #[test]
    fn another_boot_is_another_place() {
        let ours = Owner::current().unwrap();
        assert!(!Owner { place: format!("{}0", ours.place), ..ours }.is_of_this_place());
        for wrong in ["", "a", "a b", "a b c", "a 1 x"] {
            assert_eq!(Owner::parse(wrong), None, "{wrong}");
        }
    }
}
