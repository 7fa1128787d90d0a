use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::protocol::content::InputRequest;

fn key() -> Key {
    Key::new("secret")
}

fn frames(identities: &[&'static [u8]], parts: [&str; 4], buffers: &[&'static [u8]]) -> Vec<Bytes> {
    let signature = key().sign(parts.map(str::as_bytes));
    let mut frames: Vec<Bytes> = identities.iter().copied().map(Bytes::from_static).collect();
    frames.push(Bytes::from_static(DELIMITER));
    frames.push(signature.into());
    frames.extend(parts.map(|part| Bytes::from(part.to_owned())));
    frames.extend(buffers.iter().copied().map(Bytes::from_static));
    frames
}

const PARTS: [&str; 4] = [
    r#"{"msg_id": "m1", "msg_type": "stream"}"#,
    r#"{"msg_id": "p1", "msg_type": "execute_request"}"#,
    "{}",
    r#"{"prompt": "x"}"#,
];

fn message(frames: &[Bytes]) -> Message {
    match parse(frames, &key()) {
        Ok(Parsed::Message(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_is_found_between_identities_and_buffers() {
    let message = message(&frames(&[b"topic", b""], PARTS, &[b"b1", b""]));
    assert_eq!(message.msg_type(), "stream");
    assert_eq!(message.parent_id(), Some("p1"));
    assert_eq!(message.content_as::<InputRequest>().unwrap().prompt, "x");
}

#[test]
fn a_delimiter_among_the_buffers_is_a_buffer() {
    assert_eq!(message(&frames(&[], PARTS, &[DELIMITER])).msg_type(), "stream");
}

#[test]
fn no_parent_is_none() {
    for parent in ["{}", "null", "[]", "no JSON"] {
        let message = message(&frames(&[], [PARTS[0], parent, "{}", "{}"], &[]));
        assert_eq!(message.parent, None, "{parent}");
        assert_eq!(message.parent_id(), None);
    }
}

#[test]
fn unknown_types_pass_through() {
    let message = message(&frames(&[], [r#"{"msg_type": "debug_event"}"#, "{}", "{}", "whatever"], &[]));
    assert_eq!((message.msg_type(), &message.content[..]), ("debug_event", &b"whatever"[..]));
    assert!(message.content_as::<InputRequest>().is_err());
}

#[test]
fn missing_frames_are_an_error() {
    let whole = frames(&[b"topic"], PARTS, &[]);
    for count in 0..whole.len() {
        let error = parse(&whole[..count], &key()).unwrap_err();
        match count {
            0 | 1 => assert!(matches!(error, ParseError::NoDelimiter)),
            _ => assert!(matches!(error, ParseError::TooFewFrames(frames) if frames == count - 2)),
        }
    }
}

#[test]
fn a_false_signature_is_refused_before_anything_is_read() {
    let mut wrong = frames(&[], PARTS, &[]);
    wrong[2] = Bytes::from_static(b"no JSON");
    assert!(matches!(parse(&wrong, &key()), Err(ParseError::BadSignature)));
}

#[test]
fn an_empty_content_under_a_false_signature_was_elided() {
    let mut elided = frames(&[], PARTS, &[]);
    elided[5] = Bytes::new();
    match parse(&elided, &key()).unwrap() {
        Parsed::Elided { header, parent } => {
            assert_eq!(header.msg_type, "stream");
            assert_eq!(parent.unwrap().msg_id, "p1");
        }
        Parsed::Message(message) => panic!("{message:?}"),
    }
    // Empty, but signed so: a kernel that is merely odd.
    let odd = message(&frames(&[], ["{}", "{}", "{}", ""], &[]));
    assert!(odd.content.is_empty());
}

#[test]
fn a_header_that_is_no_object_is_refused() {
    for header in ["", "[1]x", "7", "\"text\"", "{", &"[".repeat(100_000)] {
        let frames = frames(&[], [header, "{}", "{}", "{}"], &[]);
        assert!(matches!(parse(&frames, &key()), Err(ParseError::BadHeader(_))), "{header:.20}");
    }
}

#[test]
fn a_repeat_is_refused_and_a_new_kernel_starts_afresh() {
    let frames = frames(&[], PARTS, &[]);
    let mut inbox = Inbox::new(key());
    assert!(inbox.read(&frames).is_ok());
    assert!(matches!(inbox.read(&frames), Err(ParseError::Replayed)));
    assert!(Inbox::new(key()).read(&frames).is_ok());
}

#[test]
fn a_false_signature_does_not_enter_the_history() {
    let right = frames(&[], PARTS, &[]);
    let mut forged = right.clone();
    forged[5] = Bytes::from_static(b"{}");
    let mut inbox = Inbox::new(key());
    assert!(inbox.read(&forged).is_err());
    assert!(inbox.read(&right).is_ok());
}

fn any_frame() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        Just(Bytes::from_static(DELIMITER)),
        Just(Bytes::from_static(b"{}")),
        "[{}\\[\\]\",:a0]{0,20}".prop_map(Bytes::from),
        vec(any::<u8>(), 0..80).prop_map(Bytes::from),
    ]
}

proptest! {
    #[test]
    fn any_frames_are_read_or_refused(frames in vec(any_frame(), 0..12)) {
        let _ = parse(&frames, &key());
        let _ = parse(&frames, &Key::new(""));
    }

    #[test]
    fn any_signed_parts_are_read_or_refused(parts in [any_frame(), any_frame(), any_frame(), any_frame()]) {
        let signature = key().sign([&parts[0], &parts[1], &parts[2], &parts[3]]);
        let mut frames = vec![Bytes::from_static(DELIMITER), signature.into()];
        frames.extend(parts);
        match parse(&frames, &key()) {
            Ok(Parsed::Message(message)) => { let _ = message.content_as::<InputRequest>(); }
            Ok(Parsed::Elided { .. }) => prop_assert!(false),
            Err(error) => prop_assert!(matches!(error, ParseError::BadHeader(_))),
        }
    }
}
