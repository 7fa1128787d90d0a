//! Floods on each channel, and a kernel that does not read.

use cellblock::{Execution, Status};

use super::frames::CHANNELS;
use crate::attack::{Attack, Caller, Expect};

pub(crate) fn attacks() -> Vec<Attack> {
    let mut attacks = Vec::new();
    for channel in CHANNELS {
        for (name, message) in [
            ("messages of this cell", "k.frames('stream', {'name': 'stdout', 'text': 'x' * 1000})"),
            (
                "messages of another cell",
                "k.frames('stream', {'text': 'x' * 1000}, parent=k.header('execute_request'))",
            ),
            ("false signatures", "k.frames('stream', {'text': 'x' * 1000}, signature=b'0' * 64)"),
            ("half a megabyte each", "k.frames('comm_msg', {'x': 'x' * 500_000})"),
        ] {
            let lines = format!("k.flood('{channel}', b''.join(multipart({message}) for _ in range(20)))");
            let attack = Attack::new(format!("a flood of {name} on {channel}"), lines, Expect::TimedOut);
            attacks.push(attack.brief().heavy());
        }
    }
    attacks.extend(fresh());
    attacks.extend(unread());
    attacks.extend(asked());
    attacks
}

/// Somebody is there to be asked.
fn asked() -> Vec<Attack> {
    let unharmed = |name: &str, caller| {
        let lines = "k.say('stdin', 'input_request', {'prompt': '?'}, times=1000)\nk.end()";
        Attack::new(name, lines, Expect::Unharmed("after\n".into())).asking(caller)
    };
    let flood = |name: &str, caller| {
        let lines = "while True: k.say('stdin', 'input_request', {'prompt': 'x' * 500_000}, times=10)";
        Attack::new(name, lines, Expect::TimedOut).asking(caller).brief().heavy()
    };
    vec![
        unharmed("a thousand questions to a caller who answers", Caller::Answers),
        unharmed("a thousand questions to a caller who does not", Caller::Sleeps),
        flood("questions without end to a caller who answers", Caller::Answers),
        flood("questions without end to a caller who does not", Caller::Sleeps),
    ]
}

/// Each message with a signature of its own, so that none is a repeat.
fn fresh() -> Vec<Attack> {
    fn counted(execution: &Execution) -> bool {
        execution.is_ok() && execution.stdout.total_bytes >= 20_000_000 && execution.stdout.text.len() < 2 << 20
    }
    let lines = "for _ in range(1000): k.stdout('x' * 20_000)\nk.end()";
    let mut attacks = vec![Attack::new("20 MB of text", lines, Expect::Ended(counted)).heavy()];
    for channel in CHANNELS {
        let lines = format!("while True: k.say('{channel}', 'input_request', {{'prompt': '?'}})");
        let attack = Attack::new(format!("questions without end on {channel}"), lines, Expect::TimedOut);
        attacks.push(attack.brief().heavy());
    }
    attacks
}

/// The host is made to write to a kernel that does not read.
fn unread() -> Vec<Attack> {
    fn ended(execution: &Execution) -> bool {
        matches!(execution.status, Status::Ok)
    }
    let fat = "k.header('input_request', username='u' * 60_000)";
    vec![
        // Every answer carries the header of its question.
        Attack::new(
            "2,000 fat questions whose answers are not read",
            format!("k.say('stdin', 'input_request', {{}}, header={fat}, times=2000)\nk.end()"),
            Expect::Ended(ended),
        )
        .heavy()
        .patient(),
        Attack::new(
            "fat questions without end whose answers are not read",
            format!("while True: k.say('stdin', 'input_request', {{}}, header={fat})"),
            Expect::TimedOut,
        )
        .brief()
        .heavy(),
        Attack::new(
            "40,000 questions whose answers are not read",
            "k.say('stdin', 'input_request', {}, times=40_000)\nk.end()",
            Expect::Ended(ended),
        )
        .patient(),
    ]
}
