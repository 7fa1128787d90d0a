//! Escape sequences in every string that a person gets to see.

use cellblock::{Execution, Output, Status, colour_only};

use crate::attack::{Attack, Expect};

/// Titles, clipboards, movements, queries, links, C1 controls, sequences that never end, and what turns text around.
const ESCAPES: &str = "'\\x1b]0;pwned\\x07\\x1b]52;c;cm0gLXJm\\x07\\x1b[2J\\x1b[5;5H\\x1b[6n\\x1b[?1049h\\x9b2J\\x9d0;p\\x9c\
    \\x1bP1$r\\x1b\\\\\\x1b]8;;http://x\\x07\\x1b[31mred\\x1bc\\x08\\x7f\\0\\x1b_x\\x1b\\\\\\x1b[' + '9' * 2000 + 'm\\x1b]never'";

/// Each string that reaches a person, with the end of its cell.
pub(crate) fn scripts() -> Vec<(&'static str, String)> {
    PLACES.map(|(place, lines, end)| (place, format!("x = {ESCAPES}\nk.stdout('shown\\n')\n{lines}\n{end}"))).into()
}

pub(crate) fn attacks() -> Vec<Attack> {
    let attack =
        |(place, lines): (&str, String)| Attack::new(format!("escapes in {place}"), lines, Expect::Ended(is_harmless));
    scripts().into_iter().map(attack).collect()
}

const PLACES: [(&str, &str, &str); 14] = [
    ("stdout", "k.stdout(x)", "k.end()"),
    ("stderr", "k.say('iopub', 'stream', {'name': 'stderr', 'text': x})", "k.end()"),
    ("the name of a stream", "k.say('iopub', 'stream', {'name': x, 'text': 'text'})", "k.end()"),
    ("text in pieces", "for c in x: k.stdout(c)", "k.end()"),
    ("a display", "k.say('iopub', 'display_data', {'data': {'text/plain': x, 'text/html': x}})", "k.end()"),
    ("a MIME type", "k.say('iopub', 'display_data', {'data': {x: x, 'image/' + x: x}})", "k.end()"),
    (
        "a display id",
        "k.say('iopub', 'display_data', {'data': {'text/plain': 'x'}, 'transient': {'display_id': x}})",
        "k.end()",
    ),
    ("a result", "k.say('iopub', 'execute_result', {'data': {'text/plain': x}, 'execution_count': 1})", "k.end()"),
    ("metadata", "k.say('iopub', 'display_data', {'data': {}, 'metadata': {x: x}})", "k.end()"),
    (
        "an exception",
        "e = {'status': 'error', 'ename': x, 'evalue': x, 'traceback': [x, x]}\nk.say('iopub', 'error', e)",
        "k.say('shell', 'execute_reply', e)\nk.idle()",
    ),
    (
        "a page",
        "pass",
        "k.say('shell', 'execute_reply', {'status': 'ok', 'payload': [{'source': 'page', 'data': {'text/plain': x}}]})\nk.idle()",
    ),
    ("a prompt", "k.say('stdin', 'input_request', {'prompt': x, 'password': True})", "k.end()"),
    ("a status", "k.say('iopub', 'status', {'execution_state': x})", "k.end()"),
    ("a header", "k.say('iopub', x, {}, header=k.header(x, username=x, date=x, msg_id=x, version=x))", "k.end()"),
];

/// The library gives strings as they are; what it offers for terminals leaves nothing but colour of them.
fn is_harmless(execution: &Execution) -> bool {
    let mut strings = vec![execution.stdout.text.clone(), execution.stderr.text.clone(), execution.status.to_string()];
    if let Status::Error(error) = &execution.status {
        strings.extend(error.traceback.iter().cloned());
        assert!(error.traceback_plain().iter().all(|part| !part.contains('\x1b')));
    }
    for output in &execution.outputs {
        if let Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } = output {
            strings.extend(bundle.data.iter().flat_map(|(mime, value)| [mime.clone(), value.to_string()]));
            strings.extend(bundle.text().map(str::to_owned));
        }
    }
    strings.iter().all(|text| is_colour_only(&colour_only(text)))
}

/// Of escapes nothing but SGR, and of controls nothing but layout.
pub(crate) fn is_colour_only(text: &str) -> bool {
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\n' | '\r' | '\t' => {}
            '\x1b' => {
                let sequence: String = rest.by_ref().take_while(|c| *c != 'm').collect();
                let parameters = sequence.strip_prefix('[');
                let plain = |text: &str| text.chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'));
                if !parameters.is_some_and(plain) {
                    return false;
                }
            }
            character if character.is_control() => return false,
            _ => {}
        }
    }
    true
}
