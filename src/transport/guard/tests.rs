use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Small enough that a property test crosses them.
const LIMITS: Limits = Limits {
    identity: 12,
    identities: 2,
    signature: 16,
    header: 32,
    metadata: 24,
    content: 300,
    message: 700,
    frames: 12,
    command: 64,
};

fn greeting() -> Vec<u8> {
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    greeting.extend(b"NULL");
    greeting.resize(64, 0);
    greeting
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = match u8::try_from(body.len()) {
        Ok(len) if flags & 2 == 0 => vec![flags, len],
        _ => [&[flags | 2][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    frame.extend(body);
    frame
}

fn ready() -> Vec<u8> {
    frame(4, b"\x05READY\x0bSocket-Type\0\0\0\x06ROUTER")
}

fn opening() -> Vec<u8> {
    [greeting(), ready()].concat()
}

fn message(frames: &[&[u8]]) -> Vec<u8> {
    let last = frames.len() - 1;
    frames.iter().enumerate().flat_map(|(at, body)| frame(u8::from(at < last), body)).collect()
}

/// What goes on of a stream given in pieces, and how it ended.
fn run(mut guard: Guard, pieces: impl IntoIterator<Item = Vec<u8>>) -> (Vec<u8>, Result<(), Cut>, Elided) {
    let mut out = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = guard.push(Bytes::from(piece), &mut out);
    }
    (out.concat(), result, guard.elided())
}

fn cut(guard: Guard, stream: Vec<u8>) -> (Vec<u8>, Cut) {
    let (out, result, _) = run(guard, [stream]);
    (out, result.unwrap_err())
}

/// The multipart messages in a stream that follows [`opening`], by a reader that shares nothing with the guard.
fn messages(stream: &[u8]) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut rest = stream.strip_prefix(&opening()[..])?;
    let mut messages = vec![Vec::new()];
    while !rest.is_empty() {
        let (header, len) = match rest[0] {
            0 | 1 => (2, usize::from(*rest.get(1)?)),
            2 | 3 => (9, usize::try_from(u64::from_be_bytes(rest.get(1..9)?.try_into().ok()?)).ok()?),
            _ => return None,
        };
        messages.last_mut()?.push(rest.get(header..header + len)?.to_vec());
        if rest[0] & 1 == 0 {
            messages.push(Vec::new());
        }
        rest = &rest[header + len..];
    }
    messages.pop()?.is_empty().then_some(messages)
}

#[test]
fn honest_traffic_goes_on_in_the_chunk_it_came_in() {
    let reply = message(&[b"id", DELIMITER, b"sig", b"{1}", b"{}", b"{}", &[7; 300], b"buffer", b""]);
    let stream = Bytes::from([opening(), reply.clone(), reply].concat());
    let mut out = Vec::new();
    let mut guard = Guard::new(Limits::default());
    guard.push(stream.clone(), &mut out).unwrap();
    assert_eq!(out, std::slice::from_ref(&stream));
    assert_eq!(out[0].as_ptr(), stream.as_ptr());
    assert_eq!(guard.elided(), Elided::default());
}

#[test]
fn a_greeting_of_another_kind_is_cut_at_the_byte() {
    for (at, byte) in [(0, 0xfe), (9, 0), (10, 2), (12, b'C'), (16, b'X'), (31, 1)] {
        let mut stream = greeting();
        stream[at] = byte;
        let (out, reason) = cut(Guard::new(LIMITS), stream);
        assert_eq!((out, reason), (greeting()[..at].to_vec(), Cut::Greeting));
    }
    assert_eq!(cut(Guard::new(LIMITS), b"HTTP/1.1 400 Bad Request\r\n".to_vec()).1, Cut::Greeting);
}

#[test]
fn nothing_but_ready_follows_the_greeting() {
    let after = |bytes: Vec<u8>| cut(Guard::new(LIMITS), [greeting(), bytes].concat());
    assert_eq!(after(message(&[b"x"])), (greeting(), Cut::Command));
    assert_eq!(after(frame(4, b"\x05REA")).1, Cut::Command);
    assert_eq!(after(frame(5, b"\x05READY")).1, Cut::Command);
    let (out, reason) = after(frame(4, b"\x05ERROR\x00"));
    assert_eq!((out.len(), reason), (64 + 2 + 1, Cut::Command));
    assert_eq!(after(frame(4, &[0; 65])).1, Cut::LongCommand(65));
    assert_eq!(after([&[6][..], &u64::MAX.to_be_bytes()].concat()).1, Cut::AbsurdLength(u64::MAX));
}

#[test]
fn no_command_follows_ready() {
    for command in [ready(), frame(4, b"\x04PING\0\0"), frame(4, b"")] {
        assert_eq!(cut(Guard::new(LIMITS), [opening(), command].concat()), (opening(), Cut::Command));
    }
}

#[test]
fn reserved_flags_are_cut() {
    for bit in 3..8 {
        let (out, reason) = cut(Guard::new(LIMITS), [opening(), vec![1 << bit, 0]].concat());
        assert_eq!((out, reason), (opening(), Cut::ReservedFlags));
    }
}

#[test]
fn of_an_absurd_length_not_even_the_header_goes_on() {
    for len in [1 << 34, 1 << 46, u64::MAX] {
        for start in [vec![], message(&[b"id", DELIMITER, b"s", b"h", b"p", b"m", b"c"])] {
            // Drops the last frame's header and body, so that what follows stands where a content or identity would.
            let start = start.get(..start.len().saturating_sub(3)).unwrap_or_default().to_vec();
            let passed = [opening(), start].concat();
            let header = [&[2][..], &len.to_be_bytes()].concat();
            let (out, reason) = cut(Guard::new(Limits::default()), [passed.clone(), header].concat());
            assert_eq!((out, reason), (passed, Cut::AbsurdLength(len)));
        }
    }
}

#[test]
fn nothing_goes_on_after_a_cut() {
    let mut guard = Guard::new(LIMITS);
    let mut out = Vec::new();
    assert_eq!(guard.push(Bytes::from_static(b"x"), &mut out), Err(Cut::Greeting));
    assert_eq!(guard.push(Bytes::from(opening()), &mut out), Err(Cut::Greeting));
    assert!(out.is_empty());
}

#[test]
fn every_part_before_the_content_has_its_limit() {
    let long = [0; 100];
    let parts: [&[u8]; 7] = [b"id", DELIMITER, b"s", b"h", b"p", b"m", b"c"];
    for (at, name) in [(0, "routing identity"), (2, "signature"), (3, "header"), (4, "parent header"), (5, "metadata")]
    {
        let mut parts = parts;
        parts[at] = &long;
        let (_, reason) = cut(Guard::new(LIMITS), [opening(), message(&parts)].concat());
        assert_eq!(reason, Cut::LongFrame { part: name, len: 100 });
    }
}

#[test]
fn identities_are_counted() {
    let with = |identities: &[&[u8]]| {
        let rest: [&[u8]; 6] = [DELIMITER, b"s", b"h", b"p", b"m", b"c"];
        run(Guard::new(LIMITS), [[opening(), message(&[identities, &rest].concat())].concat()]).1
    };
    assert_eq!(with(&[]), Ok(()));
    assert_eq!(with(&[b"<IDS|MSX>", b"2"]), Ok(()));
    assert_eq!(with(&[b"1", b"2", b"3"]), Err(Cut::TooManyIdentities));
    assert_eq!(with(&[&b"123456789"[..]; 4]), Err(Cut::TooManyIdentities));
}

#[test]
fn an_endless_multipart_is_cut() {
    let mut stream = [opening(), message(&[DELIMITER, b"s", b"h", b"p", b"m", b"c"])].concat();
    let len = stream.len();
    stream[len - 3] = 1;
    stream.extend([1, 0].repeat(100));
    let (out, reason) = cut(Guard::new(LIMITS), stream.clone());
    assert_eq!((out, reason), (stream[..len + 2 * 6].to_vec(), Cut::TooManyFrames));
}

#[test]
fn long_contents_and_buffers_are_elided_and_the_rest_goes_on() {
    let head: [&[u8]; 5] = [DELIMITER, b"s", b"h", b"p", b"m"];
    let long = vec![1; 301];
    let fits = vec![2; 300];
    let stream = [
        opening(),
        message(&[&head[..], &[&long, b"buffer"]].concat()),
        message(&[&head[..], &[&long]].concat()),
        message(&[&head[..], &[&fits, &long, &fits, &fits, b"short"]].concat()),
    ]
    .concat();
    let (out, result, elided) = run(Guard::new(LIMITS), [stream]);
    assert_eq!(result, Ok(()));
    let got = messages(&out).unwrap();
    assert_eq!(got[0][5..], [&b""[..], b"buffer"]);
    assert_eq!(got[1][5..], [b""]);
    // The third of the long ones would make the message exceed 700 bytes; the short one after it does not.
    assert_eq!(got[2][5..], [&fits[..], b"", &fits, b"", b"short"]);
    assert_eq!(elided, Elided { frames: 4, bytes: 301 * 3 + 300 });
}

#[test]
fn an_elided_frame_is_thrown_away_as_it_comes() {
    let mut guard = Guard::new(Limits::default());
    let mut out = Vec::new();
    let head = message(&[DELIMITER, b"s", b"h", b"p", b"m", b""]);
    let header = [&[2][..], &(8_u64 << 30).to_be_bytes()].concat();
    guard.push(Bytes::from([opening(), head[..head.len() - 2].to_vec(), header].concat()), &mut out).unwrap();
    out.clear();
    let chunk = Bytes::from(vec![0; 1 << 20]);
    for _ in 0..8 << 10 {
        guard.push(chunk.clone(), &mut out).unwrap();
    }
    assert!(out.is_empty());
    assert_eq!(guard.elided(), Elided { frames: 1, bytes: 8 << 30 });
    let next = Bytes::from(message(&[b"next"]));
    guard.push(next.clone(), &mut out).unwrap();
    assert_eq!(out, [next]);
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let signed = (
        vec(vec(any::<u8>(), 0..12), 0..3),
        vec(vec(any::<u8>(), 0..20), 4),
        vec((0_usize..400).prop_map(|len| vec![b'c'; len]), 0..5),
    );
    signed.prop_map(|(identities, parts, contents)| {
        let mut frames = identities;
        frames.push(DELIMITER.to_vec());
        frames.extend(parts);
        frames.extend(contents);
        message(&frames.iter().map(Vec::as_slice).collect::<Vec<_>>())
    })
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any_message(), 0..6).prop_map(|messages| [opening(), messages.concat()].concat()),
        2 => (vec(any_message(), 0..3), vec(any::<u8>(), 0..200))
            .prop_map(|(messages, noise)| [opening(), messages.concat(), noise].concat()),
        1 => vec(any::<u8>(), 0..200).prop_map(|noise| [greeting(), noise].concat()),
        1 => vec(any::<u8>(), 0..200),
    ]
}

fn split(stream: &[u8], mut lengths: Vec<usize>) -> Vec<Vec<u8>> {
    let mut rest = stream;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(lengths.pop().unwrap_or(1).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = tail;
    }
    pieces
}

proptest! {
    #[test]
    fn it_does_not_matter_how_the_stream_is_divided(stream in any_stream(), lengths in vec(0_usize..300, 0..20)) {
        let whole = run(Guard::new(LIMITS), [stream.clone()]);
        prop_assert_eq!(&whole, &run(Guard::new(LIMITS), split(&stream, lengths)));
    }

    #[test]
    fn what_goes_on_is_zmtp_within_the_limits(stream in vec(any_message(), 0..6)) {
        let (out, result, elided) = run(Guard::new(LIMITS), [[opening(), stream.concat()].concat()]);
        let sent = messages(&[opening(), stream.concat()].concat()).unwrap();
        match result {
            Ok(()) => {
                let got = messages(&out).unwrap();
                prop_assert_eq!(got.len(), sent.len());
                let mut differ = 0;
                for (got, sent) in got.iter().flatten().zip(sent.iter().flatten()) {
                    prop_assert!(got.len() as u64 <= LIMITS.content);
                    if got != sent {
                        prop_assert!(got.is_empty());
                        differ += 1;
                    }
                }
                prop_assert_eq!(differ, elided.frames);
            }
            Err(_) => prop_assert!(stream.concat().len() >= out.len() - opening().len()),
        }
    }

    #[test]
    fn any_bytes_are_passed_or_cut(stream in vec(any::<u8>(), 0..400)) {
        let (out, _, _) = run(Guard::new(LIMITS), [[opening(), stream.clone()].concat()]);
        prop_assert!(out.len() <= opening().len() + stream.len());
    }
}
