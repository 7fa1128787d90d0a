//! From a message to its code blocks, by CommonMark.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::CodeBlock;
use super::language::infer_language;

/// How many bytes of one message are read again, from fences that tags hide: each time it is all that is left of the message.
const READ_AGAIN: usize = 4 << 20;

/// The fenced code blocks of a message in Markdown, in order.
///
/// Fences are [CommonMark](https://spec.commonmark.org/0.31.2/#fenced-code-blocks)'s: of backticks or tildes, as long as they like, in lists and
/// quotes; one that is never closed goes on to the end. Indented code is no block: where agents write it, it is a quoted output or a list that was
/// indented too far. There is one departure, because agents put tags of their own around their blocks: a fence below a line
/// like `<execute>` counts, though to CommonMark it is part of the HTML up to the next blank line.
///
/// Lines of the code end in `\n`, the last one excepted. The language is the first word of the info string: `python` for `python title="x"`,
/// `{python}`, `{.python .line}` and `python:main.py`. Where none is named it is what [`infer_language`] says, and else empty.
///
/// ```
/// let blocks = cellblock::extract_code_blocks("First:\n\n~~~bash\nmkdir out\n~~~\n\n1. Then\n   ```\n   pip install rich\n   ```");
/// assert_eq!(blocks[0].language, "bash");
/// assert_eq!((blocks[1].language.as_str(), blocks[1].code.as_str()), ("sh", "pip install rich"));
/// ```
#[must_use]
pub fn extract_code_blocks(message: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut rest = message;
    let mut again = READ_AGAIN;
    while let Some(fence) = read(rest, &mut blocks, again >= rest.len()) {
        again = again.saturating_sub(rest.len());
        rest = rest.get(fence..).unwrap_or_default();
    }
    blocks
}

/// Reads blocks up to the end of the message, or up to a fence that a tag hides, whose place is returned.
fn read(message: &str, blocks: &mut Vec<CodeBlock>, unhides: bool) -> Option<usize> {
    let mut containers = 0_usize;
    let mut block: Option<CodeBlock> = None;
    for (event, range) in Parser::new(message).into_offset_iter() {
        match event {
            Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => containers += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_)) => containers = containers.saturating_sub(1),
            // In a container the lines of the rest would not be what they are here.
            Event::Start(Tag::HtmlBlock) if unhides && containers == 0 => {
                if let Some(fence) = message.get(range.clone()).and_then(hidden_fence) {
                    return Some(range.start + fence);
                }
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                block = Some(CodeBlock::new("", named(&info)));
            }
            Event::Text(text) => {
                if let Some(block) = &mut block {
                    block.code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(block.take().map(finished)),
            _ => {}
        }
    }
    None
}

fn finished(mut block: CodeBlock) -> CodeBlock {
    if block.code.ends_with('\n') {
        block.code.pop();
    }
    if block.language.is_empty() {
        infer_language(&block.code).unwrap_or_default().clone_into(&mut block.language);
    }
    block
}

/// The first fence in a piece of HTML that begins with a line which is one tag and nothing else.
fn hidden_fence(html: &str) -> Option<usize> {
    let mut lines = html.split_inclusive('\n');
    let first = lines.next().filter(|line| is_tag(line.trim()))?;
    let mut place = first.len();
    for line in lines {
        if is_fence(line) {
            return Some(place);
        }
        place += line.len();
    }
    None
}

fn is_tag(line: &str) -> bool {
    let Some(tag) = line.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else { return false };
    let name = tag.strip_prefix('/').unwrap_or(tag);
    let name = name.split(|character: char| character.is_whitespace() || character == '/').next().unwrap_or_default();
    // In these everything is text, up to their end.
    let is_text = ["pre", "script", "style", "textarea"].iter().any(|literal| name.eq_ignore_ascii_case(literal));
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && !tag.contains(['<', '>']) && !is_text
}

fn is_fence(line: &str) -> bool {
    let fence = line.trim_start_matches(' ');
    line.len() - fence.len() <= 3 && (fence.starts_with("```") || fence.starts_with("~~~"))
}

/// The language that an info string names.
fn named(info: &str) -> &str {
    let info = info.trim();
    match info.strip_prefix('{') {
        Some(attributes) => in_braces(attributes),
        None => first_word(info),
    }
}

/// `{python}`, `{r, echo=FALSE}`, `{.python .line}`, `{code-cell} python`.
fn in_braces(attributes: &str) -> &str {
    let (inside, after) = attributes.split_once('}').unwrap_or((attributes, ""));
    let mut words = inside.split([' ', '\t', ',']).filter(|word| !word.is_empty() && !word.starts_with('#'));
    match words.next().unwrap_or_default() {
        "code-cell" | "code-block" | "code" => first_word(after.trim_start()),
        word => word.trim_start_matches(['.', '=']),
    }
}

fn first_word(info: &str) -> &str {
    let word = info.split_whitespace().next().unwrap_or_default();
    // `python{1,3}`, `rust,ignore`, `python:main.py`
    let name = word.split(['{', ',', ':']).next().unwrap_or_default();
    // `title="x"` alone is an attribute.
    if name.contains('=') { "" } else { name }
}
