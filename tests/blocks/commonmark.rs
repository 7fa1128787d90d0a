//! Fences, against the examples of the specification.

use cellblock::{extract_code_blocks, infer_language};
use serde::Deserialize;

#[derive(Deserialize)]
struct Specification {
    examples: Vec<Example>,
}

#[derive(Deserialize)]
struct Example {
    example: u32,
    markdown: String,
    html: String,
}

/// Examples with a fence and one piece of indented code, which is no block of ours.
const INDENTED: [u32; 2] = [134, 278];

#[test]
fn fences_are_those_of_the_specification() {
    let specification: Specification = serde_json::from_str(include_str!("../oracle/commonmark.json")).unwrap();
    let mut seen = 0;
    for Example { example, markdown, html } in specification.examples {
        let blocks = extract_code_blocks(&markdown);
        let mut expected = code_in(&html);
        if !markdown.contains("```") && !markdown.contains("~~~") {
            expected.clear();
        } else if INDENTED.contains(&example) {
            expected.pop();
        }
        assert_eq!(blocks.len(), expected.len(), "example {example}: {blocks:?}");
        for (block, (language, code)) in blocks.iter().zip(&expected) {
            assert_eq!(block.code, code.strip_suffix('\n').unwrap_or(code), "example {example}");
            let unnamed = infer_language(&block.code).unwrap_or_default();
            assert_eq!(block.language, language.as_deref().unwrap_or(unnamed), "example {example}");
        }
        seen += blocks.len();
    }
    assert_eq!(seen, 36);
}

/// The pieces of code in rendered HTML, with their languages.
fn code_in(html: &str) -> Vec<(Option<String>, String)> {
    let pieces = html.split("<pre><code").skip(1);
    pieces
        .map(|piece| {
            let (tag, rest) = piece.split_once('>').unwrap();
            let language = tag.strip_prefix(" class=\"language-").and_then(|rest| rest.strip_suffix('"'));
            let (code, _) = rest.split_once("</code></pre>").unwrap();
            (language.map(unescaped), unescaped(code))
        })
        .collect()
}

fn unescaped(html: &str) -> String {
    html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
