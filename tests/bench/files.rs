//! A large file into a session and out of it, against `docker cp` of the same file, and what that costs the host in memory.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cellblock::{LinkPolicy, Session, Workspace};

use crate::memory;
use crate::report::{Sample, heading, megabytes, note, ratio, table, verdict};
use crate::support::{Result, call, session};

const SIZE: u64 = 1 << 30;
const ROUNDS: usize = 3;
const MEMORY: u64 = 32 << 20;

pub(crate) async fn measure() -> Result<()> {
    let directory = Directory::new()?;
    let source = directory.0.join("source");
    write_source(&source)?;
    let session = session(LinkPolicy::Auto).workspace(Workspace::Disk).start().await?;
    call(&session).await?;
    let containers = session.engine().list(&[("cellblock.session", session.name())]).await?;
    let container = containers.first().ok_or("the session has no container")?.id.0.clone();
    let [mut put, mut cp_in, mut get, mut cp_out] = ["put", "docker cp, in", "get", "docker cp, out"].map(Sample::new);
    let mut growth = 0;
    for round in 0..ROUNDS {
        for step in 0..2 {
            if (round + step) % 2 == 0 {
                memory::forget_peak()?;
                let before = memory::resident()?;
                put.extend([timed(async || {
                    session.files().upload(&source, "ours").await?;
                    Ok(())
                })
                .await?]);
                get.extend([timed(async || {
                    session.files().download("ours", directory.0.join("ours")).await?;
                    Ok(())
                })
                .await?]);
                growth = growth.max(memory::peak()?.saturating_sub(before));
                same(&source, &directory.0.join("ours"))?;
            } else {
                let theirs = directory.0.join("theirs");
                let inside = format!("{container}:/workspace/theirs");
                cp_in.extend([timed(async || docker_cp(&source, Path::new(&inside))).await?]);
                cp_out.extend([timed(async || docker_cp(Path::new(&inside), &theirs)).await?]);
                same(&source, &theirs)?;
            }
            clear(&session, &directory.0).await?;
        }
    }
    session.stop().await?;
    table("1 GiB into a session and out of it, work directory on disk", &[&put, &cp_in, &get, &cp_out]);
    ratio("put", put.median(), cp_in.median(), 2.0);
    ratio("get", get.median(), cp_out.median(), 2.0);
    heading("memory");
    verdict(
        &format!("the host grew by {:.1} MB, target ≤ {:.1}", megabytes(growth), megabytes(MEMORY)),
        growth <= MEMORY,
    );
    note("times end when the file can be seen, which is before the disk has it");
    Ok(())
}

/// With a disk that has nothing else to do.
async fn timed(work: impl AsyncFnOnce() -> Result<()>) -> Result<Duration> {
    rustix::fs::sync();
    let begin = Instant::now();
    work().await?;
    Ok(begin.elapsed())
}

fn docker_cp(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("docker").arg("cp").arg("-q").args([from, to]).status()?;
    if status.success() { Ok(()) } else { Err(format!("docker cp: {status}").into()) }
}

fn same(a: &Path, b: &Path) -> Result<()> {
    let status = Command::new("cmp").args([a, b]).status()?;
    if status.success() { Ok(()) } else { Err("what came back is not what was sent".into()) }
}

async fn clear(session: &Session, directory: &Path) -> Result<()> {
    for name in ["ours", "theirs"] {
        let _ = std::fs::remove_file(directory.join(name));
    }
    session.run("import glob, os\nfor name in glob.glob('*'): os.remove(name)").await?;
    Ok(())
}

/// Bytes that no file system makes smaller.
fn write_source(path: &Path) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = Vec::with_capacity(1 << 20);
    while block.len() < 1 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    for number in 0..SIZE >> 20 {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&block)?;
    }
    Ok(())
}

struct Directory(PathBuf);

impl Directory {
    /// On a disk, as the work directory is.
    fn new() -> Result<Self> {
        let path = Path::new("/var/tmp").join(format!("cellblock-bench-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
