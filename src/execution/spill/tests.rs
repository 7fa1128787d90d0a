use std::fs::{File, metadata, read_to_string};
use std::io::BufWriter;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::{End, QUEUE, Spill, SpillDirectory, Spilled, Target, Writer};
use crate::execution::Limits;

fn mode(path: &Path) -> u32 {
    metadata(path).expect("it exists").permissions().mode() & 0o777
}

async fn spilled(directory: &SpillDirectory, limit: u64, pieces: &[&str]) -> Option<Spilled> {
    let mut spill = directory.start("stdout", limit);
    for piece in pieces {
        spill.write((*piece).to_owned());
    }
    spill.finish().await
}

/// Waits for what a thread does in its own time.
async fn until(condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen");
}

#[tokio::test]
async fn a_file_holds_the_whole_text_and_is_its_owners_only() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = SpillDirectory::new(parent.path().join("spill"));
    let Spilled { path, bytes } = spilled(&directory, 100, &["one ", "two ", "€"]).await.expect("a file");
    assert_eq!(read_to_string(&path).expect("readable"), "one two €");
    assert_eq!(bytes, 11);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&parent.path().join("spill")), 0o700);
    let second = spilled(&directory, 100, &["x"]).await.expect("a file");
    assert_ne!(second.path, path);
}

#[tokio::test]
async fn a_file_ends_at_its_limit() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = SpillDirectory::new(parent.path().join("spill"));
    let Spilled { path, bytes } = spilled(&directory, 7, &["12345", "6€", "8"]).await.expect("a file");
    assert_eq!(read_to_string(&path).expect("readable"), "123456");
    assert_eq!(bytes, 6);
}

#[tokio::test]
async fn a_file_of_256_mib_is_the_longest_by_default() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = SpillDirectory::new(parent.path().join("spill"));
    let mut spill = directory.start("stdout", Limits::default().spill_file);
    for _ in 0..258 {
        until(|| spill.queued.load(Ordering::Relaxed) < QUEUE / 2).await;
        spill.write("x".repeat(1 << 20));
    }
    let Spilled { path, bytes } = spill.finish().await.expect("a file");
    assert_eq!((bytes, metadata(path).expect("it exists").len()), (256 << 20, 256 << 20));
}

#[tokio::test]
async fn the_oldest_files_make_room() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = SpillDirectory::with_budget(parent.path().join("spill"), 10);
    let first = spilled(&directory, 100, &["1234"]).await.expect("a file");
    let second = spilled(&directory, 100, &["1234"]).await.expect("a file");
    let third = spilled(&directory, 100, &["1234"]).await.expect("a file");
    assert!(!first.path.exists() && second.path.exists() && third.path.exists());
    let fourth = spilled(&directory, 100, &["1234567890", "1"]).await.expect("a file");
    assert!(!second.path.exists() && !third.path.exists());
    assert_eq!(fourth.bytes, 10);
}

#[tokio::test]
async fn the_next_controller_counts_what_an_earlier_one_left() {
    let parent = tempfile::tempdir().expect("a directory");
    let place = parent.path().join("spill");
    let directory = SpillDirectory::new(&place);
    spilled(&directory, 100, &["1"]).await.expect("a file");
    drop(directory);

    // Its files do not collide with what is there.
    let directory = SpillDirectory::with_budget(&place, 3);
    let second = spilled(&directory, 100, &["12"]).await.expect("a file");
    assert_eq!(place.read_dir().expect("readable").count(), 2);
    let third = spilled(&directory, 100, &["3"]).await.expect("a file");
    assert_eq!(place.read_dir().expect("readable").count(), 2);
    assert!(second.path.exists() && third.path.exists());
}

#[tokio::test]
async fn nothing_is_made_before_there_is_text() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = SpillDirectory::new(parent.path().join("spill"));
    assert_eq!(spilled(&directory, 100, &[]).await, None);
    assert_eq!(parent.path().read_dir().expect("readable").count(), 0);
}

#[tokio::test]
async fn a_file_that_nobody_will_hear_of_is_removed() {
    let parent = tempfile::tempdir().expect("a directory");
    let place = parent.path().join("spill");
    let directory = SpillDirectory::new(&place);
    let mut spill = directory.start("stdout", 100);
    spill.write("text".to_owned());
    until(|| place.exists() && place.read_dir().is_ok_and(|files| files.count() == 1)).await;
    drop(spill);
    until(|| place.read_dir().is_ok_and(|files| files.count() == 0)).await;
}

#[tokio::test]
async fn a_place_that_cannot_hold_files_costs_the_file_only() {
    let parent = tempfile::tempdir().expect("a directory");
    let missing = SpillDirectory::new(parent.path().join("missing/spill"));
    assert_eq!(spilled(&missing, 100, &["1", "2"]).await, None);

    let link = parent.path().join("link");
    symlink(parent.path(), &link).expect("a link");
    assert_eq!(spilled(&SpillDirectory::new(&link), 100, &["1"]).await, None);
    assert!(link.exists());
}

#[test]
fn a_full_disk_ends_the_file_and_removes_it() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = SpillDirectory::new(parent.path().join("spill"));
    let file = directory.create("stdout").expect("a file").file;
    let path = file.path.clone();
    let full = File::options().write(true).open("/dev/full").expect("the full device");
    let mut target = Some(Target { out: BufWriter::with_capacity(8, full), file });
    let mut writer =
        Writer { directory, stream: "stdout", limit: 100, queued: Arc::new(AtomicUsize::new(0)), end: End::Open };
    writer.take(&mut target, "longer than the buffer");
    assert!(target.is_none() && !path.exists());
    assert!(matches!(writer.end, End::Failed));
}

#[test]
fn a_disk_that_is_too_slow_bounds_memory_and_leaves_a_prefix() {
    let (queue, jobs) = mpsc::channel();
    let mut spill = Spill { queue: Some(queue), queued: Arc::new(AtomicUsize::new(0)), cut: false };
    let piece = "x".repeat(1 << 20);
    for _ in 0..100 {
        spill.write(piece.clone());
    }
    assert!(spill.cut);
    spill.queued.store(0, Ordering::Relaxed);
    spill.write("after a gap".to_owned());
    drop(spill);
    assert!(jobs.iter().count() * piece.len() <= QUEUE);
}

#[tokio::test]
async fn a_writer_that_is_gone_is_no_file() {
    let (queue, jobs) = mpsc::channel();
    let mut spill = Spill { queue: Some(queue), queued: Arc::new(AtomicUsize::new(0)), cut: false };
    spill.write("text".to_owned());
    drop(jobs);
    spill.write("text".to_owned());
    assert_eq!(spill.finish().await, None);
}
