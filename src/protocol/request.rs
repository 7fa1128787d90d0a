//! Writing a request.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;

use super::{DELIMITER, Header, Key};

/// The version of the protocol that requests speak.
const VERSION: &str = "5.4";

/// The frames of a request, from the delimiter on, with the present time as its date.
///
/// `msg_id` must be new each time: kernels are silent about a repeated signature. The content is one of the requests of
/// [`content`](super::content), which cannot fail to serialise; one that did would be sent as `{}`.
pub(crate) fn encode(msg_type: &str, session: &str, msg_id: &str, content: &impl Serialize, key: &Key) -> Vec<Bytes> {
    frames(msg_type, session, msg_id, None, content, key)
}

/// Like [`encode`], for what answers a message of the kernel: `input_reply`.
pub(crate) fn encode_answer(
    msg_type: &str,
    session: &str,
    msg_id: &str,
    parent: &Header,
    content: &impl Serialize,
    key: &Key,
) -> Vec<Bytes> {
    frames(msg_type, session, msg_id, Some(parent), content, key)
}

fn frames(
    msg_type: &str,
    session: &str,
    msg_id: &str,
    parent: Option<&Header>,
    content: &impl Serialize,
    key: &Key,
) -> Vec<Bytes> {
    let header = Header {
        msg_id: msg_id.to_owned(),
        session: session.to_owned(),
        username: "cellblock".to_owned(),
        date: format!("{:.6}", Timestamp::now()),
        msg_type: msg_type.to_owned(),
        version: VERSION.to_owned(),
        subshell_id: None,
    };
    let header = json(&header);
    let parent = parent.map_or(Bytes::from_static(b"{}"), json);
    let metadata = Bytes::from_static(b"{}");
    let content = json(content);
    let signature = key.sign([&header, &parent, &metadata, &content]);
    vec![Bytes::from_static(DELIMITER), Bytes::from(signature), header, parent, metadata, content]
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map_or(Bytes::from_static(b"{}"), Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Parsed, content, parse};

    #[test]
    fn a_request_reads_back_as_it_was_written() {
        let key = Key::new("secret");
        let before = Timestamp::now();
        let frames = encode("execute_request", "s1", "m1", &content::ExecuteRequest::new("1+1"), &key);
        let Parsed::Message(message) = parse(&frames, &key).unwrap() else { panic!("elided") };
        assert_eq!(message.header.msg_id, "m1");
        assert_eq!(message.header.session, "s1");
        assert_eq!(message.header.username, "cellblock");
        assert_eq!(message.header.version, "5.4");
        assert_eq!(message.msg_type(), "execute_request");
        assert_eq!(message.header.date.len(), "2025-01-01T00:00:00.123456Z".len());
        let date = crate::protocol::timestamp(&message.header.date).unwrap();
        assert!(date.as_microsecond() >= before.as_microsecond() && date <= Timestamp::now());
        assert!(message.parent.is_none());
        let content: serde_json::Value = message.content_as().unwrap();
        assert_eq!(content["code"], "1+1");
    }

    #[test]
    fn an_answer_carries_its_parent() {
        let key = Key::new("secret");
        let parent = Header { msg_id: "asked".into(), subshell_id: Some("x".into()), ..Header::default() };
        let frames = encode_answer("input_reply", "s1", "m2", &parent, &content::InputReply { value: "yes" }, &key);
        let Parsed::Message(message) = parse(&frames, &key).unwrap() else { panic!("elided") };
        assert_eq!(message.parent, Some(parent));
        assert_eq!(message.parent_id(), Some("asked"));
    }
}
