//! Messages as agents write them, and what TapeAgents makes of them.

use std::collections::BTreeMap;

use cellblock::{CodeBlock, extract_code_blocks};

/// A message of the table `messages.txt`.
///
/// `@@ name`, the message, and then `@> language` and the code for each of its blocks. `[crlf]` after the name ends its lines as Windows does. A `?` before the
/// language: nobody named it, and Python's grammar is what tells. `@!` says why TapeAgents' answer is another, which it must be exactly there.
struct Case {
    name: String,
    message: String,
    blocks: Vec<(String, String)>,
    departs: Option<String>,
}

fn cases() -> Vec<Case> {
    let table = include_str!("messages.txt");
    table.strip_prefix("@@ ").unwrap().split("\n@@ ").map(case).collect()
}

fn case(entry: &str) -> Case {
    let (name, rest) = entry.split_once('\n').unwrap_or((entry, ""));
    let (mut message, mut blocks, mut departs) = (Vec::new(), Vec::<(String, Vec<&str>)>::new(), None);
    for line in rest.strip_suffix('\n').unwrap_or(rest).split('\n') {
        if let Some(language) = line.strip_prefix("@>") {
            blocks.push((language.trim().to_owned(), Vec::new()));
        } else if let Some(why) = line.strip_prefix("@! ") {
            departs = Some(why.to_owned());
        } else if let Some((_, code)) = blocks.last_mut() {
            code.push(line);
        } else {
            message.push(line);
        }
    }
    let (name, end) = match name.strip_suffix(" [crlf]") {
        Some(name) => (name, "\r\n"),
        None => (name, "\n"),
    };
    let blocks = blocks.into_iter().map(|(language, code)| (language, code.join("\n"))).collect();
    Case { name: name.to_owned(), message: message.join(end), blocks, departs }
}

fn extracted(message: &str) -> Vec<(String, String)> {
    extract_code_blocks(message).into_iter().map(|CodeBlock { code, language, .. }| (language, code)).collect()
}

#[test]
fn messages_are_read_as_their_writers_meant_them() {
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    for Case { name, message, blocks, .. } in cases {
        let expected: Vec<(String, String)> = blocks
            .into_iter()
            .map(|(language, code)| match language.strip_prefix('?') {
                Some(language) if cfg!(feature = "infer") => (language.to_owned(), code),
                Some(_) => (String::new(), code),
                None => (language, code),
            })
            .collect();
        assert_eq!(extracted(&message), expected, "{name}");
    }
}

#[test]
fn departures_from_tapeagents_are_told() {
    let theirs: BTreeMap<String, Vec<(String, String)>> =
        serde_json::from_str(include_str!("../oracle/tapeagents_blocks.json")).unwrap();
    for Case { name, blocks, departs, .. } in cases() {
        let theirs = theirs.get(&name).unwrap_or_else(|| panic!("{name}: not in the oracle's answers"));
        let ours: Vec<_> =
            blocks.into_iter().map(|(language, code)| (language.trim_start_matches('?').to_owned(), code)).collect();
        assert_eq!(departs.is_some(), *theirs != ours, "{name}: {departs:?}, and TapeAgents has {theirs:?}");
    }
}
