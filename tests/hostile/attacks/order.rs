//! Answers to questions never asked, answers of the wrong order, and answers that never come.

use cellblock::{Execution, State, Status};

use super::frames::CHANNELS;
use crate::attack::{Attack, Expect};

const OTHER: &str = "parent=k.header('execute_request')";

pub(crate) fn attacks() -> Vec<Attack> {
    let mut attacks = never_asked();
    attacks.extend(odd_order());
    attacks.extend(halves());
    attacks.extend(interrupts());
    attacks
}

fn unharmed(name: impl Into<String>, lines: impl Into<String>) -> Attack {
    Attack::new(name, format!("{}\nk.end()", lines.into()), Expect::Unharmed("after\n".into()))
}

fn never_asked() -> Vec<Attack> {
    let mut attacks = vec![
        unharmed("a reply to another request", format!("k.reply({OTHER})\nk.reply('error', {OTHER})")),
        unharmed("an idle of another request", format!("k.idle({OTHER})\nk.busy({OTHER})\nk.idle({OTHER})")),
        unharmed("output of another request", format!("k.stdout('forged\\n', {OTHER})")),
        unharmed(
            "messages without a parent",
            "k.reply('error', parent={})\nk.idle(parent={})\nk.stdout('x', parent={})",
        ),
        unharmed("a parent with an empty id", "k.reply('error', parent={'msg_id': ''})\nk.idle(parent={'msg_id': ''})"),
        unharmed(
            "a question for input without a parent",
            "k.say('stdin', 'input_request', {'prompt': '?'}, parent={})",
        ),
        unharmed("a question for input of another request", format!("k.say('stdin', 'input_request', {{}}, {OTHER})")),
        unharmed(
            "the kernel says that it restarts",
            "for s in ('starting', 'restarting', 'dead', 'terminating'):\n    k.say('iopub', 'status', {'execution_state': s})",
        ),
    ];
    for kind in [
        "kernel_info_reply",
        "interrupt_reply",
        "shutdown_reply",
        "complete_reply",
        "is_complete_reply",
        "history_reply",
        "debug_reply",
    ] {
        let lines = format!(
            "for c in NUMBERS:\n    k.say(c, '{kind}', {{'status': 'ok'}})\n    k.say(c, '{kind}', {{}}, {OTHER})"
        );
        attacks.push(unharmed(format!("{kind} on every channel"), lines));
    }
    for channel in CHANNELS {
        let lines =
            format!("k.say('{channel}', 'input_request', {{'prompt': 'x' * 100_000, 'password': True}}, times=20)");
        attacks.push(unharmed(format!("questions for input on {channel}"), lines));
    }
    for channel in ["control", "stdin"] {
        attacks.push(unharmed(
            format!("the reply on {channel}"),
            format!("k.say('{channel}', 'execute_reply', {{'status': 'error'}})"),
        ));
        attacks.push(unharmed(
            format!("idle on {channel}"),
            format!("k.say('{channel}', 'status', {{'execution_state': 'idle'}})"),
        ));
    }
    attacks
}

fn is_over(execution: &Execution) -> bool {
    matches!(execution.status, Status::Ok)
}

fn odd_order() -> Vec<Attack> {
    let says = |name: &str, lines: &str, holds| Attack::new(name, lines, Expect::Ended(holds));
    vec![
        says("the reply before anything", "k.reply()\nk.stdout('after\\n')\nk.idle()", |e| {
            e.is_ok() && e.stdout.text == "after\n"
        }),
        says("idle before the output", "k.idle()\nk.stdout('after\\n')\nk.reply()", is_over),
        says("two replies that differ", "k.reply()\nk.reply('error')\nk.idle()", |e| {
            matches!(e.status, Status::Ok | Status::Error(_))
        }),
        says("a thousand replies", "for _ in range(1000): k.reply()\nk.idle()", is_over),
        says("a thousand idles", "for _ in range(1000): k.idle()\nk.reply()", is_over),
        says("busy and idle a thousand times", "for _ in range(1000):\n    k.busy()\n    k.idle()\nk.reply()", is_over),
        says("output after the end", "k.end()\nk.stdout('late\\n', times=100)", |e| {
            e.is_ok() && e.stdout.text.starts_with("after\n")
        }),
        says("an exception and a good reply", "k.say('iopub', 'error', {'ename': 'E'})\nk.end()", is_over),
        says("a reply of an exception without one", "k.reply('error')\nk.idle()", |e| {
            e.error().is_some_and(|error| error.ename == "E")
        }),
        says("aborted", "k.reply('aborted')\nk.idle()", |e| e.status == Status::Aborted),
        says(
            "a clock that goes backwards",
            "k.busy(header=k.header('status', date='2030-01-01T00:00:00Z'))\nk.end()",
            |e| e.is_ok() && e.timing.kernel.is_none_or(|span| span.as_secs() < 60),
        ),
        says(
            "a clock at the end of time",
            "k.busy(header=k.header('status', date='0001-01-01T00:00:00Z'))\nk.idle(header=k.header('status', date='9999-12-31T23:59:59Z'))\nk.reply()",
            is_over,
        ),
    ]
}

/// Of the two that make an end, one never comes.
fn halves() -> Vec<Attack> {
    vec![
        Attack::new("a reply and no idle", "k.stdout('after\\n')\nk.reply()", Expect::Ended(is_over)),
        Attack::new("idle and no reply", "k.stdout('after\\n')\nk.idle()", Expect::Ended(is_over)),
        Attack::new(
            "idle and nothing more",
            "k.stdout('after\\n')\nk.idle()\nk.asked('shell', 'kernel_info_request')",
            Expect::Ended(is_over),
        ),
        Attack::new("neither", "k.stdout('after\\n')", Expect::TimedOut).brief(),
        Attack::new("the end of another cell only", format!("k.reply({OTHER})\nk.idle({OTHER})"), Expect::TimedOut)
            .brief(),
        Attack::new(
            "a false idle and a false reply",
            "k.idle(signature=b'0' * 64)\nk.reply(signature=b'0' * 64)",
            Expect::TimedOut,
        )
        .brief(),
        on_and_on("idle", "idle()"),
        on_and_on("the reply", "reply()"),
        on_and_on("output after the reply", "stdout('x')").after("k.reply()"),
    ]
}

/// Messages that keep coming must not keep the host waiting past the timeout.
fn on_and_on(what: &str, message: &str) -> Attack {
    let lines = format!(
        "import time\nend = time.monotonic() + 9\nwhile time.monotonic() < end:\n    k.{message}\n    time.sleep(0.02)"
    );
    Attack::new(format!("{what} on and on"), lines, Expect::Ended(is_over)).brief()
}

/// What is made of an interrupt.
fn interrupts() -> Vec<Attack> {
    let timed_out = |name: &str, lines: &str, expect| Attack::new(name, lines, expect).brief();
    vec![
        timed_out(
            "an interrupt ends the cell",
            "k.asked('control', 'interrupt_request')\nk.end()",
            Expect::Ended(|e| (&e.status, e.state) == (&Status::TimedOut, State::Kept)),
        ),
        timed_out(
            "an interrupt is answered and the cell goes on",
            "for _ in range(100): k.say('control', 'interrupt_reply', {}, parent=k.asked('control', 'interrupt_request'))",
            Expect::TimedOut,
        ),
        timed_out(
            "an interrupt is never answered",
            "k.asked('control', 'interrupt_request')\nimport time\ntime.sleep(100)",
            Expect::TimedOut,
        ),
        timed_out(
            "a thousand answers to an interrupt",
            "h = k.asked('control', 'interrupt_request')\nk.say('control', 'interrupt_reply', {}, parent=h, times=1000)",
            Expect::TimedOut,
        ),
        timed_out(
            "an interrupt kills the kernel",
            "k.asked('control', 'interrupt_request')\nos._exit(3)",
            Expect::Died,
        ),
        timed_out(
            "an interrupt closes the channels",
            "k.asked('control', 'interrupt_request')\nfor c in NUMBERS: k.close(c)",
            Expect::TimedOut,
        ),
        timed_out(
            "an interrupt cuts the link",
            "k.asked('control', 'interrupt_request')\nk.raw('control', b'\\x80\\0')",
            Expect::Cut("reserved flags"),
        ),
        timed_out(
            "an interrupt is answered with the end of another cell",
            &format!("k.asked('control', 'interrupt_request')\nk.reply({OTHER})\nk.idle({OTHER})"),
            Expect::TimedOut,
        ),
    ]
}
