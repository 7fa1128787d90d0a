//! What a client finds on a connection that it keeps, byte for byte.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::{PATIENCE, Server};

/// Sends all of this, and only then reads what comes back until the server closes, or `ends` says that it is all.
fn talk(server: &Server, sent: &[u8], ends: impl Fn(&str) -> bool) -> String {
    let mut stream = TcpStream::connect(server.address.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent).unwrap();
    let (mut read, mut room) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut room).unwrap() {
            0 => break,
            more => read.extend_from_slice(&room[..more]),
        }
        if ends(std::str::from_utf8(&read).unwrap()) {
            break;
        }
    }
    String::from_utf8(read).unwrap()
}

fn head(server: &Server, path: &str, more: &[&str]) -> String {
    let token = server.token.as_deref().unwrap();
    let more: String = more.iter().map(|line| format!("{line}\r\n")).collect();
    let mut head = format!("POST {path} HTTP/1.1\r\n{more}");
    if !more.contains("host:") {
        head.push_str("host: localhost\r\n");
    }
    if !more.contains("authorization:") {
        head.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    head + "\r\n"
}

#[test]
fn a_refusal_before_the_body_is_read_says_that_the_connection_ends_and_arrives_whole() {
    let Some(server) = Server::start(&["--max-body", "1k", "--max-upload", "1k"]) else { return };
    const LENGTH: usize = 8 << 20;
    let length = format!("content-length: {LENGTH}");
    let cell = "/code/execute?identifier=a&api-version=2024-02-02-preview";
    for (status, path, more) in [
        (401, cell, "authorization: Bearer another-token-0123456789"),
        (403, cell, "host: evil.example"),
        (404, "/nothing", "x: x"),
        (413, cell, "x: x"),
        (415, "/v1/sessions/a/executions", "content-type: text/plain"),
    ] {
        let mut sent = head(&server, path, &[&length, more]).into_bytes();
        sent.resize(sent.len() + LENGTH, b'x');
        let answer = talk(&server, &sent, |_| false).to_ascii_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n") && answer.ends_with("}}"), "{answer}");
    }
}

#[test]
fn a_little_that_nobody_reads_is_no_reason_to_end_a_connection() {
    let Some(server) = Server::start(&[]) else { return };
    let chunked = ["transfer-encoding: chunked"];
    let mut sent = head(&server, "/v1/sessions/nobody/interrupt", &["content-length: 2"]) + "{}";
    sent += &(head(&server, "/v1/sessions/nobody/restart", &chunked) + "2\r\n{}\r\n0\r\n\r\n");
    sent += &(head(&server, "/nothing", &["content-length: 0"]));
    let answers = talk(&server, sent.as_bytes(), |read| read.matches("HTTP/1.1 404").count() == 3);
    assert!(!answers.contains("connection: close"), "{answers}");
}

#[test]
fn who_asks_first_whether_to_send_is_refused_without_sending() {
    let Some(server) = Server::start(&[]) else { return };
    let cell = "/code/execute?identifier=a&api-version=2024-02-02-preview";
    let more = ["authorization: Bearer another-token-0123456789", "content-length: 100", "expect: 100-continue"];
    let answer = talk(&server, head(&server, cell, &more).as_bytes(), |read| read.ends_with("}}"));
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close"), "{answer}");
}
