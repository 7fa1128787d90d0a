//! Messages that were made to hurt.

use cellblock::{extract_code_blocks, infer_language};

/// What is not linear, or recurses, does not come to its end here.
const SIZE: usize = 1 << 17;

fn filled(part: &str, size: usize) -> String {
    part.repeat(size / part.len())
}

#[test]
fn deep_and_endless_markdown_is_read_to_its_end() {
    for part in [
        ">",
        "- ",
        "> - ",
        "1. ",
        "[",
        "![",
        "[a](",
        "*a _b ",
        "`",
        "``` x`\n",
        "```\n",
        "~~~ `\n",
        "<a ",
        "<!--",
        "<?",
        "&",
        "[a]: b\n",
        "a\n",
        "\\",
        "| a ",
        "\r",
        "\0",
        "\n",
        "<x>\n```\n\n",
        "<x>\n",
        "> ```\n",
        "\u{feff}",
    ] {
        let message = filled(part, SIZE);
        let blocks = extract_code_blocks(&message);
        let total: usize = blocks.iter().map(|block| block.code.len()).sum();
        assert!(total <= 3 * message.len(), "{part:?} has become {total} bytes");
    }
    for deep in [">", "- ", "  "] {
        let lines = format!("{}x\n", deep.repeat(1000)).repeat(SIZE / 2000);
        assert!(extract_code_blocks(&lines).is_empty());
    }
    let quoted = format!("{0}```\n{1}", "> ".repeat(500), format!("{}x\n", "> ".repeat(500)).repeat(SIZE / 1000));
    assert_eq!(extract_code_blocks(&quoted).len(), 1);
}

#[test]
fn a_long_block_is_whole() {
    let code = "x = 'é' # a line\n".repeat((5 << 20) / 16);
    let message = format!("```python\n{code}```");
    let blocks = extract_code_blocks(&message);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].code, code.trim_end_matches('\n'));
}

#[test]
fn unnamed_code_that_is_deep_or_endless_is_judged() {
    for part in [
        "(",
        "[",
        "{1:",
        "-",
        "not ",
        "lambda:",
        "1**",
        "1 if 1 else ",
        "a.",
        "a()",
        "1+",
        "f'{",
        "f'{x:{x:",
        "x;",
        "await ",
        "a<",
        "*",
        "@x\n",
        "if 1:\n ",
        "elif 1:\n",
        "\"\"\"",
        "\\\n",
        "\0",
        "%",
        "!",
        "#!",
        "\t",
    ] {
        // The longest that is judged, and one that is not.
        for size in [64 << 10, 65 << 10] {
            let _ = infer_language(&filled(part, size));
        }
    }
}
