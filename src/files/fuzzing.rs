//! What must hold of the host's side of `bridge files` for any bytes whatever.

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "a property that does not hold ends the fuzzer")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf, sink};
use tokio::sync::mpsc;

use super::download::Receiving;
use super::entries;
use super::failure::Attempt;
use super::host::Staging;
use super::names::WorkPath;
use super::reader::{announced, pass_on};
use super::transfer::{Account, send};
use super::wire::{Receiver, Sender, converse};
use crate::engine::{Exec, ExecEnd};
use crate::kernel::Handle;

/// Limits that short inputs reach.
const ENTRIES: u64 = 12;
const BYTES: u64 = 1 << 12;

/// What `bridge files` says. The first byte says what it was asked for, and in which pieces it comes.
pub fn files(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let piece = usize::from(how >> 2).max(1);
        match how & 3 {
            0 => assert_eq!(listed(bytes, bytes.len()).await, listed(bytes, piece).await, "pieces make a difference"),
            1 => assert_eq!(read(bytes, bytes.len()).await, read(bytes, piece).await, "pieces make a difference"),
            2 => assert_eq!(got(bytes, bytes.len()).await, got(bytes, piece).await, "pieces make a difference"),
            _ => put(bytes, piece).await,
        }
    });
}

fn conversation(bytes: &[u8], piece: usize) -> (Sender, Receiver) {
    let end = std::future::ready(Ok(ExecEnd::new(Some(0), Vec::new())));
    converse(Exec::new(sink(), Pieces { bytes: bytes.to_vec(), at: 0, piece }, end))
}

/// Paths that a listing shows: below the one that was asked for.
async fn listed(bytes: &[u8], piece: usize) -> Option<Vec<String>> {
    let (_sender, mut receiver) = conversation(bytes, piece);
    let asked = WorkPath::check("asked").unwrap();
    let entries = entries(&mut receiver, &asked).await.ok()?;
    for entry in &entries {
        let rest = entry.path.strip_prefix("asked").unwrap();
        assert!(rest.is_empty() || rest.starts_with('/'), "{:?}", entry.path);
        assert!(!rest.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")), "{:?}", entry.path);
        assert_eq!(entry.mode & !0o7777, 0);
    }
    Some(entries.into_iter().map(|entry| entry.path).collect())
}

/// A file's content: as much as was announced, or no success.
async fn read(bytes: &[u8], piece: usize) -> Option<Vec<u8>> {
    let (_sender, mut receiver) = conversation(bytes, piece);
    let entry = announced(&mut receiver, &WorkPath::check("asked").unwrap(), BYTES).await.ok()?;
    let (sender, mut chunks) = mpsc::channel(4);
    let passed = async {
        let passed = pass_on(&mut receiver, entry.size, &sender).await;
        drop(sender);
        passed
    };
    let collected = async {
        let mut content = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            content.extend_from_slice(&chunk.unwrap());
        }
        content
    };
    let (passed, content) = tokio::join!(passed, collected);
    assert!(content.len() as u64 <= entry.size);
    passed.ok()?;
    assert_eq!(content.len() as u64, entry.size);
    Some(content)
}

/// What a download writes: all of it in its place, or nothing; and nothing beside it.
async fn got(bytes: &[u8], piece: usize) -> Option<BTreeMap<PathBuf, Option<Vec<u8>>>> {
    let host = Host::new();
    let attempt = Attempt::new("fuzz".to_owned(), &Handle::new(mpsc::channel(1).0, Arc::default()));
    let (_sender, receiver) = conversation(bytes, piece);
    let staging = Staging::new(&host.0.join("inner/got"), false).unwrap();
    let account = Account::new(None);
    let receiving = Receiving { receiver, staging, account, entries: ENTRIES, bytes: BYTES, attempt: &attempt };
    let received = receiving.receive().await;
    let mut there = BTreeMap::new();
    walk(&host.0, &mut there);
    assert_eq!(there.remove(&host.0.join("neighbour")), Some(Some(b"untouched".to_vec())));
    assert_eq!(there.remove(&host.0.join("inner")), Some(None));
    let Ok(transfer) = received else {
        assert!(there.is_empty(), "something is left: {there:?}");
        return None;
    };
    let top = host.0.join("inner/got");
    assert!(there.keys().all(|path| path.starts_with(&top)), "{there:?}");
    let files: Vec<_> = there.values().flatten().collect();
    assert_eq!(files.len() as u64, transfer.files);
    assert_eq!(files.iter().map(|content| content.len() as u64).sum::<u64>(), transfer.bytes);
    assert_eq!((there.len() - files.len()) as u64, transfer.directories);
    assert!(transfer.bytes <= BYTES && there.len() as u64 <= ENTRIES + 1);
    Some(there.into_iter().map(|(path, content)| (path.strip_prefix(&top).unwrap().to_owned(), content)).collect())
}

/// Files with their content, and directories. There may be nothing else.
fn walk(directory: &Path, there: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7000, 0, "{}", path.display());
        if metadata.is_dir() {
            walk(&path, there);
            there.insert(path, None);
        } else {
            assert!(metadata.is_file(), "{}", path.display());
            there.insert(path.clone(), Some(fs::read(&path).unwrap()));
        }
    }
}

/// An upload ends, whatever is said meanwhile.
async fn put(bytes: &[u8], piece: usize) {
    let (sender, receiver) = conversation(bytes, piece);
    let upload = async |sender: &mut Sender| {
        sender.file("", false).await?;
        sender.content(b"content").await?;
        sender.end_content().await
    };
    let _ = send(sender, receiver, upload).await;
}

/// Bytes that come in pieces.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let piece = rest.get(..rest.len().min(self.piece).min(buffer.remaining())).unwrap();
        buffer.put_slice(piece);
        self.at += piece.len();
        Poll::Ready(Ok(()))
    }
}

/// A directory of the host, with a neighbour that nobody may touch.
struct Host(PathBuf);

impl Host {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("cellblock-fuzz-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir_all(path.join("inner")).unwrap();
        fs::write(path.join("neighbour"), "untouched").unwrap();
        Self(path)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
