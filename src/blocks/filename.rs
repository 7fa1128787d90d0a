//! The file that a block's code is written to.

use md5::{Digest as _, Md5};

/// The places that lead to the work directory.
const WORK_DIRECTORIES: [&str; 2] = ["/workspace/", "/mnt/data/"];
/// The longest path that Linux takes, in bytes.
const PATH_LIMIT: usize = 4095;
/// The longest name of a file, in bytes.
const NAME_LIMIT: usize = 255;

/// A name that leads out of the work directory, or is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outside;

/// The file that the first line of the code names in a comment, relative to the work directory: `# filename: a/b.py`, `// filename: x.js`,
/// `/* filename: x.css */`, `<!-- filename: x.html -->`. It may stand below a `#!` line.
pub(super) fn named(code: &str) -> Result<Option<String>, Outside> {
    let mut lines = code.lines();
    let mut first = lines.next().unwrap_or_default();
    if first.starts_with("#!") {
        first = lines.next().unwrap_or_default();
    }
    comment(first.trim()).and_then(name_in).map(inside).transpose()
}

/// The name for code that has none of its own, which is TapeAgents'.
pub(super) fn made_up(code: &str, language: &str) -> String {
    let digest = Md5::digest(code);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("tmp_code_{hex}.{language}")
}

fn comment(line: &str) -> Option<&str> {
    let between = |start, end| line.strip_prefix(start)?.strip_suffix(end);
    between("<!--", "-->")
        .or_else(|| between("/*", "*/"))
        .or_else(|| line.strip_prefix("//"))
        .or_else(|| line.strip_prefix('#'))
}

fn name_in(comment: &str) -> Option<&str> {
    let (key, name) = comment.split_once(':')?;
    let name = name.trim();
    (key.trim().eq_ignore_ascii_case("filename") && !name.is_empty()).then_some(name)
}

fn inside(name: &str) -> Result<String, Outside> {
    let name = WORK_DIRECTORIES.iter().find_map(|directory| name.strip_prefix(directory)).unwrap_or(name);
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_file = !name.ends_with('/') && !parts.is_empty();
    let is_name = |part: &&str| *part != ".." && part.len() <= NAME_LIMIT;
    if name.starts_with('/') || !is_file || name.contains('\0') || name.len() > PATH_LIMIT || !parts.iter().all(is_name)
    {
        return Err(Outside);
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_names_the_file() {
        for (code, name) in [
            ("# filename: a/b.py\nprint(1)", Some("a/b.py")),
            ("#filename:b.py", Some("b.py")),
            ("# Filename: b.py\r\nx", Some("b.py")),
            ("// filename: x.js\nx", Some("x.js")),
            ("/* filename: x.css */\na {}", Some("x.css")),
            ("<!-- filename: x.html -->\n<p>", Some("x.html")),
            ("<!--filename: my page.html-->", Some("my page.html")),
            ("#!/bin/sh\n# filename: run.sh\nls", Some("run.sh")),
            ("# filename: ./a//b.py", Some("a/b.py")),
            ("# filename: /workspace/a.py", Some("a.py")),
            ("# filename: /mnt/data/a.py", Some("a.py")),
            ("# filename: it's: odd.py", Some("it's: odd.py")),
            // TapeAgents takes any comment for a name.
            ("# Load the data\nimport pandas", None),
            ("// filename\nx", None),
            ("# filename:\nx", None),
            ("# the filename: a.py", None),
            ("x = 1\n# filename: a.py", None),
            ("/* filename: x.css", None),
            ("", None),
        ] {
            assert_eq!(named(code), Ok(name.map(str::to_owned)), "{code:?}");
        }
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for name in [
            "../x.py",
            "a/../../x.py",
            "a/..",
            "..",
            ".",
            "/etc/passwd",
            "/workspace",
            "/workspace/",
            "/workspace/../etc/passwd",
            "/mnt/data//etc/../..",
            "/workspaces/x.py",
            "a/",
            "a\0b.py",
            &"a".repeat(256),
            &"a/".repeat(3000),
        ] {
            assert_eq!(named(&format!("# filename: {name}\nx")), Err(Outside), "{name:?}");
        }
    }

    #[test]
    fn what_has_no_name_is_named_by_its_digest() {
        // `md5sum` of `print(1)`
        assert_eq!(made_up("print(1)", "python"), "tmp_code_186bdbe41e79ea696410ba0a9e8d2762.python");
    }
}
