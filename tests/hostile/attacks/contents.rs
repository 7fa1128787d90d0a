//! Contents that are not what their message type says: types, nesting, sizes.

use cellblock::{Execution, Output, Status};

use crate::attack::{Attack, Expect};

pub(crate) fn attacks() -> Vec<Attack> {
    let mut attacks = odd();
    attacks.extend(replies());
    attacks.extend(large());
    attacks.extend(many());
    attacks
}

fn survives(name: impl Into<String>, lines: impl Into<String>) -> Attack {
    fn ended(execution: &Execution) -> bool {
        execution.is_ok() && execution.stdout.text.ends_with("after\n")
    }
    Attack::new(name, format!("{}\nk.end()", lines.into()), Expect::Ended(ended))
}

/// Every type of message with contents of every kind, one attack a type.
fn odd() -> Vec<Attack> {
    let contents = "[b'', b'[]', b'null', b'7', b'\"x\"', b'{', b'{}', b'\\xff', b'{\"a\":1}x', b'[' * 100_000, \
        b'{\"data\":' * 100_000, b'{\"text\":\"\\\\ud800\"}', b'{\"text\":NaN,\"name\":-Infinity}', \
        b'{\"text\":\"a\",\"text\":\"b\"}', b'{\"data\":{\"text/plain\":' + b'[' * 50_000 + b']' * 50_000 + b'}}', \
        {'name': 7, 'text': [], 'data': 'x', 'metadata': [], 'transient': 0, 'wait': 'no', 'execution_state': {}, \
        'execution_count': -1, 'ename': [], 'evalue': {}, 'traceback': 'x', 'code': 0}, \
        {'data': {'a': None, 'b': [1, 'x'], 'c': {}, 'application/json': [[]]}, 'transient': {'display_id': []}}, \
        {'execution_count': 1 << 70}, {'execution_count': 1.5}, {'traceback': [1, None, {}], 'ename': None}, \
        {'data': {'text/plain': ['a', 'b']}, 'execution_count': 2, 'metadata': {'text/plain': 7}}]";
    [
        "stream",
        "display_data",
        "execute_result",
        "update_display_data",
        "error",
        "status",
        "execute_input",
        "clear_output",
        "comm_open",
        "debug_event",
        "iopub_welcome",
        "shutdown_reply",
        "",
        "\\x1b[2J",
    ]
    .map(|kind| {
        let lines = format!("for content in {contents}: k.say('iopub', '{kind}', content)");
        survives(format!("odd contents of {kind:?}"), lines)
    })
    .into()
}

/// What a reply may say of itself.
fn replies() -> Vec<Attack> {
    fn ended(execution: &Execution) -> bool {
        matches!(execution.status, Status::Ok | Status::Error(_) | Status::Aborted)
    }
    [
        ("is empty", "b''"),
        ("is a list", "b'[]'"),
        ("is no JSON", "b'{'"),
        ("is deep", "b'{\"payload\":' * 100_000"),
        ("has no status", "{}"),
        ("has an odd status", "{'status': 'splendid'}"),
        ("has a status of the wrong type", "{'status': ['ok']}"),
        ("is aborted", "{'status': 'aborted'}"),
        ("has an error of wrong types", "{'status': 'error', 'ename': 7, 'evalue': [], 'traceback': {}}"),
        ("has an error of 20 MB", "{'status': 'error', 'ename': 'E' * 5_000_000, 'evalue': 'v' * 15_000_000}"),
        ("has a million traceback lines", "{'status': 'error', 'ename': 'E', 'traceback': ['t'] * 1_000_000}"),
        ("has a count past u64", "{'status': 'ok', 'execution_count': 1 << 80}"),
        (
            "has a payload of a million pages",
            "{'status': 'ok', 'payload': [{'source': 'page', 'data': {}}] * 1_000_000}",
        ),
        ("has a payload of wrong types", "{'status': 'ok', 'payload': [7, None, {'source': []}]}"),
        (
            "has a page of 20 MB",
            "{'status': 'ok', 'payload': [{'source': 'page', 'data': {'text/plain': 'p' * 20_000_000}}]}",
        ),
        ("asks to exit and does not", "{'status': 'ok', 'payload': [{'source': 'ask_exit', 'keepkernel': False}]}"),
    ]
    .map(|(name, content)| {
        let lines = format!("k.stdout('after\\n')\nk.say('shell', 'execute_reply', {content})\nk.idle()");
        let attack = Attack::new(format!("a reply that {name}"), lines, Expect::Ended(ended));
        if content.contains("000") { attack.heavy() } else { attack }
    })
    .into()
}

fn left_out(name: impl Into<String>, lines: &str) -> Attack {
    fn ended(execution: &Execution) -> bool {
        execution.is_ok() && execution.outputs_left_out >= 1 && execution.stdout.text.ends_with("after\n")
    }
    Attack::new(name, format!("{lines}\nk.end()"), Expect::Ended(ended)).heavy()
}

fn large() -> Vec<Attack> {
    let display = |name: &str, content: &str| {
        survives(format!("a display with {name}"), format!("k.say('iopub', 'display_data', {content})")).heavy()
    };
    vec![
        survives("a text of 23 MB", "k.stdout('x' * 23_000_000 + '\\n')").heavy(),
        left_out("a text of 26 MB", "k.stdout('x' * 26_000_000)"),
        left_out("a text of 200 MB", "k.stdout('x' * 200_000_000)"),
        left_out("an error of 30 MB", "k.say('iopub', 'error', {'ename': 'E' * 30_000_000})"),
        survives("a status of 30 MB", "k.say('iopub', 'status', {'execution_state': 'x' * 30_000_000})").heavy(),
        survives("a status of 20 MB", "k.say('iopub', 'status', {'execution_state': 'x' * 20_000_000})").heavy(),
        survives("60 MB of buffers", "k.say('iopub', 'display_data', {'data': {}}, buffers=[bytes(20_000_000)] * 3)")
            .heavy(),
        survives("a buffer of 100 MB", "k.say('iopub', 'comm_msg', {}, buffers=[bytes(100_000_000)])").heavy(),
        display(
            "a display id of 20 MB",
            "{'data': {'text/plain': 'x'}, 'transient': {'display_id': 'i' * 20_000_000}}",
        ),
        display("a MIME type of 20 MB", "{'data': {'m' * 20_000_000: 'x'}}"),
        display("a million MIME types", "{'data': {str(i): '' for i in range(1_000_000)}}"),
        display("a million empty lists", "{'data': {'application/json': [[]] * 1_000_000}}"),
        display("a million empty maps", "{'data': {'application/json': [{}] * 1_000_000}}"),
        display("two million lines of text", "{'data': {'text/plain': [''] * 2_000_000}}"),
        display("metadata of a million entries", "{'data': {}, 'metadata': {str(i): 0 for i in range(1_000_000)}}"),
    ]
}

fn many() -> Vec<Attack> {
    fn bounded(execution: &Execution) -> bool {
        let weight: usize = execution
            .outputs
            .iter()
            .map(|output| match output {
                Output::DisplayData(bundle) => bundle.text().map_or(0, str::len),
                _ => 0,
            })
            .sum();
        execution.is_ok() && execution.outputs.len() <= 2 * 32_768 + 16 && weight <= 64 << 20
    }
    let attack =
        |name: &str, lines: &str| Attack::new(name, format!("{lines}\nk.end()"), Expect::Ended(bounded)).heavy();
    vec![
        attack("40,000 displays", "k.say('iopub', 'display_data', {'data': {'text/plain': 'x'}}, times=40_000)"),
        attack(
            "40,000 turns between the streams",
            "for _ in range(20_000):\n    for name in ('stdout', 'stderr'): k.say('iopub', 'stream', {'name': name, 'text': '.'})",
        ),
        attack(
            "5,000 updates of 1,000 displays of one name",
            "shown = {'data': {'text/plain': 'x'}, 'transient': {'display_id': 'd'}}\n\
             k.say('iopub', 'display_data', shown, times=1000)\nk.say('iopub', 'update_display_data', shown, times=5000)",
        ),
        attack("5,000 errors of 10 KB", "k.say('iopub', 'error', {'ename': 'E', 'evalue': 'v' * 10_000}, times=5000)"),
        attack(
            "5,000 clears between texts",
            "for i in range(5000):\n    k.stdout(str(i))\n    k.say('iopub', 'clear_output', {'wait': i % 2})",
        ),
        attack(
            "100 displays of 1 MB",
            "k.say('iopub', 'display_data', {'data': {'text/plain': 'x' * 1_000_000}}, times=100)",
        ),
        attack(
            "200 results of 1 MB",
            "k.say('iopub', 'execute_result', {'data': {'text/plain': 'x' * 1_000_000}}, times=200)",
        ),
    ]
}
