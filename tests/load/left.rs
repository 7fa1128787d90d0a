//! What a process has at a moment: descriptors, threads, tasks of its sessions, and their directories on the host.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::drivers;

/// What ends by itself has ended by then.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    descriptors: Vec<String>,
    threads: usize,
    tasks: usize,
}

impl Left {
    pub(crate) fn now() -> Self {
        let mut descriptors: Vec<_> = fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            // The directory that is being read is one of them.
            .map(|target| target.display().to_string())
            .filter(|target| !target.starts_with("/proc/"))
            // Numbers of sockets and pipes differ.
            .map(|target| target.split(':').next().unwrap_or_default().to_owned())
            .collect();
        descriptors.sort();
        Self { descriptors, threads: fs::read_dir("/proc/self/task").unwrap().count(), tasks: drivers::tasks() }
    }

    /// Whether nothing is here that was not there before.
    fn is_no_more_than(&self, before: &Self) -> bool {
        let mut had = before.descriptors.clone();
        let known = self.descriptors.iter().all(|one| {
            let at = had.iter().position(|other| other == one);
            at.map(|at| had.swap_remove(at)).is_some()
        });
        known && self.threads <= before.threads && self.tasks <= before.tasks
    }
}

/// Waits until nothing is left but what was there.
pub(crate) async fn settles_to(before: &Left) {
    let begun = Instant::now();
    loop {
        let now = Left::now();
        if now.is_no_more_than(before) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "left are {now:#?}\nwhere there were {before:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The host's directories of the sessions that this process holds: each has a lock there.
pub(crate) fn directories() -> Vec<PathBuf> {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    open.filter(|path| path.ends_with("lock")).filter_map(|lock| Some(lock.parent()?.to_owned())).collect()
}
