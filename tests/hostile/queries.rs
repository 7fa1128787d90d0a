//! Answers to what is asked besides cells: completions, and whether code is complete.

use std::time::Duration;

use cellblock::LinkPolicy;

use crate::attack::HIJACK;
use crate::places::Place;

/// The library itself gives up after 10 s.
const BOUND: Duration = Duration::from_secs(20);

/// Answers one after the other; the last question is not answered.
const ANSWERS: &str = "\
answers = 2 * [b'', b'[]', b'{', b'[' * 100_000, {}, {'matches': 'abc', 'status': 7}, {'matches': [1, None, {}], 'indent': []},
    {'matches': ['x'] * 200_000, 'cursor_start': 5, 'cursor_end': 1}, {'cursor_start': -1, 'cursor_end': 1 << 70},
    {'matches': ['\\x1b]0;t\\x07'], 'cursor_start': 1 << 40, 'cursor_end': 1 << 50}, {'matches': ['m' * 30_000_000]},
    {'status': 'incomplete', 'indent': ' ' * 900_000}, {'status': 'incomplete', 'indent': '\\x1b[2J'}]
def answer(channel, message):
    kind = json.loads(message[message.index(DELIMITER) + 2])['msg_type']
    if kind not in ('complete_request', 'is_complete_request'): return plain(channel, message)
    if answers:
        content, parent = answers.pop(0), message[message.index(DELIMITER) + 2]
        k.say(channel, kind.replace('request', 'reply'), content, parent=parent)
        k.say(channel, kind.replace('request', 'reply'), content, parent=parent)
plain, k.answer = k.answer, answer
k.end()";

pub(crate) async fn all(place: &Place) {
    let session = place.builder(LinkPolicy::Auto).start().await.unwrap();
    let code = format!("{HIJACK}\nhijack().play({})", serde_json::Value::from(ANSWERS));
    assert!(session.run(code).await.unwrap().is_ok());
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..14 {
        let asked = async { tokio::join!(session.complete("caf\u{e9}.", 5), session.is_complete("if x:")) };
        let (completed, told) = tokio::time::timeout(BOUND, asked).await.expect("answers");
        for well in [completed.is_ok(), told.is_ok()] {
            if well { answered += 1 } else { refused += 1 }
        }
    }
    assert!(answered >= 10 && refused >= 2, "{answered} answers were read, {refused} were not");
    assert_eq!(session.run("40 + 2").await.unwrap().text(), Some("42"));
    session.stop().await.unwrap();
}
