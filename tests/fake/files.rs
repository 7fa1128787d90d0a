//! A `bridge files` that is forged: nothing it says makes the host write where it should not, or grow.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cellblock::{Error, Session};
use serde_json::{Value, json};

use super::fake::FakeEngine;
use super::{session, stop};

fn frame(stream: u8, kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[stream, kind][..], &length, payload].concat()
}

fn say(message: &Value) -> Vec<u8> {
    frame(0, 0, message.to_string().as_bytes())
}

fn entry(path: &str, kind: &str, size: u64) -> Vec<u8> {
    say(&json!({ "type": "entry", "path": path, "kind": kind, "size": size, "mode": 0o107_777, "modified_ns": 1 }))
}

fn content(bytes: &[u8]) -> Vec<u8> {
    [frame(1, 0, bytes), frame(1, 2, b"")].concat()
}

fn file(path: &str, bytes: &[u8]) -> Vec<u8> {
    [entry(path, "file", bytes.len() as u64), content(bytes)].concat()
}

fn done() -> Vec<u8> {
    say(&json!({ "type": "done" }))
}

fn tree(parts: &[Vec<u8>]) -> Vec<u8> {
    [entry("", "directory", 0), parts.concat(), done()].concat()
}

/// A directory of the host with a neighbour that nobody may touch, and what is in it after a download.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        fs::create_dir(host.path().join("inner")).unwrap();
        fs::write(host.path().join("neighbour"), "untouched").unwrap();
        host
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Nothing is there that was not there before.
    fn is_clean(&self) -> bool {
        let names =
            |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        names(self.path()).len() == 2
            && names(&self.path().join("inner")).is_empty()
            && fs::read_to_string(self.path().join("neighbour")).unwrap() == "untouched"
    }
}

async fn refused(session: &Session, what: &str) -> Error {
    let host = Host::new();
    let error = session.files().download("out", host.path().join("inner/out")).await.expect_err(what);
    assert!(host.is_clean(), "{what}: something is left");
    error
}

#[tokio::test]
async fn a_forged_tree_writes_nothing_outside_and_leaves_nothing_inside() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let long = "x".repeat(256);
    let deep = vec!["d"; 500].join("/");
    let names = [
        "../neighbour",
        "..",
        ".",
        "/etc/cellblock-was-here",
        "a/../../neighbour",
        "a//b",
        "a/",
        "a\u{0}b",
        "\u{1b}]0;title\u{7}",
        "line\nbreak",
        "\u{9b}31m",
        &long,
        &deep,
    ];
    let container = engine.container();
    for name in names {
        for kind in ["file", "directory"] {
            let hostile = if kind == "file" { file(name, b"hostile") } else { entry(name, kind, 0) };
            container.forge_files(tree(&[file("good", b"good"), hostile]));
            let error = refused(&session, name).await;
            assert!(!format!("{error:?}").contains('\u{1b}'), "{error:?}");
        }
    }
    for kind in ["symlink", "other"] {
        container.forge_files(tree(&[entry("link", kind, 0), file("link/passwd", b"hostile")]));
        refused(&session, kind).await;
    }
    container.forge_files(tree(&[file("twice", b"1"), file("twice", b"2")]));
    refused(&session, "the same name twice").await;
    container.forge_files(tree(&[file("file", b"1"), file("file/below", b"2")]));
    refused(&session, "a file that is a directory").await;
    container.forge_files(tree(&[file("nowhere/below", b"2")]));
    refused(&session, "a directory that was not told of").await;
    stop(&session, &engine).await;
}

#[tokio::test]
async fn forged_frames_are_refused_and_leave_nothing() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let container = engine.container();
    let start = || entry("", "file", 4);
    let cases = [
        ("nothing", Vec::new()),
        ("garbage", b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        ("a frame of 4 GiB", [vec![0, 0], vec![0xff; 4]].concat()),
        ("a long message", frame(0, 0, &vec![b' '; 100_000])),
        ("no JSON", frame(0, 0, b"{")),
        ("deep JSON", frame(0, 0, &b"[".repeat(60_000))),
        ("an unknown message", say(&json!({ "type": "shutdown" }))),
        ("another stream", frame(7, 0, b"")),
        ("credit", frame(1, 3, &[0, 0, 0, 1])),
        ("content without an entry", content(b"hello")),
        ("an entry below instead of the thing itself", file("below", b"hello")),
        ("a symlink itself", [entry("", "symlink", 0), done()].concat()),
        ("more content than announced", [start(), content(b"hello"), done()].concat()),
        ("less content than announced", [start(), content(b"hel"), done()].concat()),
        ("empty pieces without end", [start(), frame(1, 0, b"").repeat(100)].concat()),
        ("content that breaks off", [start(), frame(1, 0, b"he")].concat()),
        ("no end", [start(), content(b"four")].concat()),
        ("an end inside of the content", [start(), frame(1, 0, b"he"), done()].concat()),
        ("a second file", [start(), content(b"four"), file("more", b"more"), done()].concat()),
        (
            "a negative size",
            say(&json!({ "type": "entry", "path": "", "kind": "file", "size": -1, "mode": 0, "modified_ns": 0 })),
        ),
        ("a terabyte", [entry("", "file", 1 << 40), content(b"four"), done()].concat()),
        ("all of memory", [entry("", "file", u64::MAX), content(b"four"), done()].concat()),
        (
            "a refusal of its own",
            say(&json!({ "type": "refused", "code": "\u{1b}[2J", "text": "\u{1b}[2J".repeat(9000) })),
        ),
    ];
    for (what, bytes) in cases {
        container.forge_files(bytes);
        let error = refused(&session, what).await;
        let text =
            format!("{error} {:?} {:?}", std::error::Error::source(&error).map(ToString::to_string), error.hint());
        assert!(text.len() < 1000 && !text.contains('\u{1b}'), "{what}: {text}");
        assert!(session.files().get("out").await.is_err(), "{what}");
    }
    assert_eq!(session.run("40 + 2").await.unwrap().text(), Some("42"));
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_forged_tree_is_bounded() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let container = engine.container();
    let files: Vec<u8> = (0..200).flat_map(|number| file(&format!("{number}"), b"x")).collect();
    let skipped = say(&json!({ "type": "skipped", "path": "\u{1b}[2J", "reason": "name" })).repeat(2000);
    let host = Host::new();
    for (many, limit) in [(tree(std::slice::from_ref(&files)), 100), (tree(std::slice::from_ref(&skipped)), 1000)] {
        container.forge_files(many);
        let download = session.files().download("out", host.path().join("inner/out")).max_entries(limit);
        assert!(download.await.is_err_and(|error| error.is_usage()));
        assert!(host.is_clean());
    }
    container.forge_files(tree(&[files]));
    let download = session.files().download("out", host.path().join("inner/out")).max_bytes(100);
    assert!(download.await.is_err_and(|error| error.is_usage()));
    assert!(host.is_clean());

    container.forge_files(tree(&[skipped]));
    let transfer = session.files().download("out", host.path().join("inner/out")).await.unwrap();
    assert_eq!((transfer.skipped.len(), transfer.skipped_total), (1000, 2000));
    let entries = entry("x", "file", 1).repeat(100_001);
    container.forge_files([entries, done()].concat());
    assert!(session.files().list(".").await.is_err());
    stop(&session, &engine).await;
}

#[tokio::test]
async fn no_special_permission_reaches_the_host() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    engine.container().forge_files([file("", b"#!/bin/sh"), done()].concat());
    let host = Host::new();
    let to = host.path().join("inner/program");
    session.files().download("program", &to).await.unwrap();
    let mode = fs::metadata(&to).unwrap().mode() & 0o7777;
    assert_eq!(mode & 0o7022 & !0o022, 0, "{mode:o}");
    assert_eq!(mode & 0o700, 0o700, "{mode:o}");
    stop(&session, &engine).await;
}

#[tokio::test]
async fn a_forged_listing_names_nothing_outside() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let container = engine.container();
    for name in ["../x", "/etc/passwd", "a/../b", "..", "a\u{0}"] {
        container.forge_files([entry(name, "file", 1), done()].concat());
        assert!(session.files().list(".").await.is_err(), "{name}");
        assert!(session.files().stat("a").await.is_err(), "{name}");
    }
    stop(&session, &engine).await;
}

#[tokio::test]
async fn an_upload_to_a_bridge_that_lies_is_no_success() {
    let engine = FakeEngine::new();
    let session = session(&engine).await;
    let container = engine.container();
    for bytes in [Vec::new(), done(), entry("", "file", 1), b"garbage!".to_vec()] {
        container.forge_files(bytes);
        assert!(session.files().put("a", vec![0; 4 << 20]).await.is_err());
    }
    stop(&session, &engine).await;
}
