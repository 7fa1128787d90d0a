//! ZMTP 3.1 as a kernel's sockets speak it: enough to serve one connection.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The 64 bytes that open a connection.
pub(crate) fn greeting() -> Vec<u8> {
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    greeting.extend(b"NULL");
    greeting.resize(64, 0);
    greeting
}

/// READY, for a socket of this type.
pub(crate) fn ready(socket_type: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend(u32::try_from(socket_type.len()).expect("a short name").to_be_bytes());
    body.extend(socket_type.as_bytes());
    frame(4, &body)
}

/// One frame: 1 is MORE, 4 is COMMAND.
pub(crate) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = match u8::try_from(body.len()) {
        Ok(len) => vec![flags, len],
        Err(_) => [&[flags | 2][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    frame.extend(body);
    frame
}

/// One multipart message.
pub(crate) fn message<T: AsRef<[u8]>>(frames: &[T]) -> Vec<u8> {
    let mut message = Vec::new();
    for (at, body) in frames.iter().enumerate() {
        message.extend(frame(u8::from(at + 1 < frames.len()), body.as_ref()));
    }
    message
}

/// Reads the peer's greeting and READY and returns its identity.
pub(crate) async fn accept(reader: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>> {
    let mut greeting = [0; 64];
    reader.read_exact(&mut greeting).await?;
    if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 || !greeting[12..].starts_with(b"NULL\0") {
        return Err(invalid("the host's greeting"));
    }
    let (flags, body) = read_frame(reader).await?;
    let properties = body.strip_prefix(b"\x05READY").filter(|_| flags & 4 != 0).ok_or_else(|| invalid("READY"))?;
    Ok(property(properties, b"Identity").unwrap_or_default())
}

fn property(mut rest: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (len, tail) = rest.split_first()?;
        let (name, tail) = tail.split_at_checked(usize::from(*len))?;
        let (len, tail) = tail.split_first_chunk::<4>()?;
        let (value, tail) = tail.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        if name == wanted {
            return Some(value.to_vec());
        }
        rest = tail;
    }
}

/// Reads one multipart message.
pub(crate) async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    loop {
        let (flags, body) = read_frame(reader).await?;
        if flags & 4 != 0 {
            return Err(invalid("a command after READY"));
        }
        frames.push(body);
        if flags & 1 == 0 {
            return Ok(frames);
        }
    }
}

async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> Result<(u8, Vec<u8>)> {
    let flags = reader.read_u8().await?;
    let len = if flags & 2 == 0 { u64::from(reader.read_u8().await?) } else { reader.read_u64().await? };
    let mut body = vec![0; usize::try_from(len).ok().filter(|len| *len < 1 << 30).ok_or_else(|| invalid("a length"))?];
    reader.read_exact(&mut body).await?;
    Ok((flags, body))
}

/// Writes what comes out of a queue until it ends.
pub(crate) async fn write_queue(mut writer: impl AsyncWrite + Unpin, mut queue: tokio::sync::mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the fake kernel did not understand {what}"))
}
