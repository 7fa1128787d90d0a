//! Spill files: the whole text of a stream that was too long to be kept in memory.
//!
//! A file is always a prefix of the text. Text comes from the driver, which must never wait for a disk, so a thread
//! of its own writes each file, behind a queue that is bounded by bytes. Where the queue or the file is full the file
//! ends there; where the disk fails it is removed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

mod directory;

pub(crate) use directory::SpillDirectory;
use directory::{Slot, SpillFile};

/// Bytes that may wait for the disk.
const QUEUE: usize = 16 << 20;
/// What a queued piece of text takes beside its bytes.
const PIECE: usize = 64;
/// How long the end of an execution waits for the disk.
const FLUSH: Duration = Duration::from_secs(10);

/// A spill file being written.
#[derive(Debug)]
pub(super) struct Spill {
    queue: Option<mpsc::Sender<Job>>,
    queued: Arc<AtomicUsize>,
    /// Text was refused: what follows would leave a gap.
    cut: bool,
}

/// A spill file as it is handed out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spilled {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

#[derive(Debug)]
enum Job {
    Write(String),
    End(oneshot::Sender<Option<Spilled>>),
}

impl SpillDirectory {
    /// Starts a file for this stream. Nothing here touches the disk.
    pub(super) fn start(&self, stream: &'static str, limit: u64) -> Spill {
        let (queue, jobs) = mpsc::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let writer = Writer { directory: self.clone(), stream, limit, queued: Arc::clone(&queued), end: End::Open };
        let thread = std::thread::Builder::new().name("cellblock-spill".to_owned());
        let queue = match thread.spawn(move || writer.run(&jobs)) {
            Ok(_) => Some(queue),
            Err(error) => {
                tracing::warn!(%error, "no thread for a spill file");
                None
            }
        };
        Spill { queue, queued, cut: false }
    }
}

impl Spill {
    pub(super) fn write(&mut self, text: String) {
        let Some(queue) = self.queue.as_ref().filter(|_| !self.cut) else { return };
        let cost = text.len() + PIECE;
        // The last piece may exceed the queue: it came as one message and is in memory already.
        if self.queued.load(Ordering::Relaxed) >= QUEUE {
            tracing::warn!("the disk is too slow for a spill file; it ends here");
            self.cut = true;
            return;
        }
        self.queued.fetch_add(cost, Ordering::Relaxed);
        self.cut = queue.send(Job::Write(text)).is_err();
    }

    /// Completes once the file is written; none if there is no file to show for it.
    pub(super) async fn finish(self) -> Option<Spilled> {
        let (done, written) = oneshot::channel();
        self.queue?.send(Job::End(done)).ok()?;
        match tokio::time::timeout(FLUSH, written).await {
            Ok(spilled) => spilled.ok().flatten(),
            Err(_) => {
                tracing::warn!("gave up a spill file: the disk takes too long");
                None
            }
        }
    }
}

/// The thread's side.
struct Writer {
    directory: SpillDirectory,
    stream: &'static str,
    limit: u64,
    queued: Arc<AtomicUsize>,
    end: End,
}

enum End {
    Open,
    Full,
    Failed,
}

impl Writer {
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        let mut target = None;
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Write(text) => {
                    self.take(&mut target, &text);
                    self.queued.fetch_sub(text.len() + PIECE, Ordering::Relaxed);
                }
                Job::End(done) => {
                    self.finish(target, done);
                    return;
                }
            }
        }
        // The collector was dropped: nobody will hear of the file.
        if let Some(target) = target {
            self.directory.discard(&target.file);
        }
    }

    fn take(&mut self, target: &mut Option<Target>, text: &str) {
        if !matches!(self.end, End::Open) {
            return;
        }
        if let Err(error) = self.write(target, text) {
            tracing::warn!(%error, "cannot write a spill file");
            self.end = End::Failed;
            if let Some(target) = target.take() {
                self.directory.discard(&target.file);
            }
        }
    }

    fn write(&mut self, target: &mut Option<Target>, text: &str) -> std::io::Result<()> {
        let target = match target {
            Some(target) => target,
            None => target.insert(Target::create(&self.directory, self.stream)?),
        };
        let room = usize::try_from(self.limit - target.file.bytes).unwrap_or(usize::MAX);
        let (fits, rest) = text.split_at_checked(text.floor_char_boundary(room)).unwrap_or(("", text));
        let granted = self.directory.grow(&mut target.file, fits.len());
        if !rest.is_empty() || !granted {
            self.end = End::Full;
        }
        if granted { target.out.write_all(fits.as_bytes()) } else { Ok(()) }
    }

    fn finish(&self, target: Option<Target>, done: oneshot::Sender<Option<Spilled>>) {
        let Some(Target { mut out, file }) = target else {
            let _nobody_waits = done.send(None);
            return;
        };
        let spilled = match out.flush() {
            Ok(()) => Some(Spilled { path: file.path.clone(), bytes: file.bytes }),
            Err(error) => {
                tracing::warn!(%error, "cannot write a spill file");
                None
            }
        };
        drop(out);
        let written = spilled.is_some();
        if written {
            self.directory.complete(&file);
        }
        if done.send(spilled).is_err() || !written {
            self.directory.discard(&file);
        }
    }
}

/// An open file with its place in the directory's account.
struct Target {
    out: BufWriter<File>,
    file: SpillFile,
}

impl Target {
    fn create(directory: &SpillDirectory, stream: &str) -> std::io::Result<Self> {
        let Slot { file, out } = directory.create(stream)?;
        Ok(Self { out: BufWriter::with_capacity(64 << 10, out), file })
    }
}

#[cfg(test)]
mod tests;
