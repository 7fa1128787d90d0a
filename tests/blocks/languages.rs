//! The language of code that nobody has named.

use cellblock::infer_language;

#[test]
fn a_shebang_decides() {
    for (line, language) in [
        ("#!/bin/bash", Some("bash")),
        ("#!/usr/bin/env bash\r", Some("bash")),
        ("#!/bin/sh -e", Some("sh")),
        ("#! /usr/bin/env -S python3.13 -u", Some("python")),
        ("#!/usr/bin/env FOO=1 python", Some("python")),
        ("#!/usr/bin/pwsh", Some("pwsh")),
        ("#!/usr/bin/env node", Some("javascript")),
        ("#!/usr/bin/awk -f", None),
        ("#!", None),
    ] {
        let code = format!("{line}\necho and other words");
        assert_eq!(infer_language(&code), language, "{line:?}");
    }
}

#[test]
fn a_command_in_the_first_line_decides() {
    for command in [
        "pip install rich",
        "pip3 install rich",
        "pip",
        "python x.py",
        "python3 -m http.server",
        "ls",
        "ls -la",
        "ls /tmp",
        "cd .. && ls",
        "\n# comment\n  mkdir -p a/b",
        "cat > x.py <<'EOF'\nprint(1)\nEOF",
        "env | sort",
        "chmod +x run.sh",
        "export A=1",
        "set -e",
    ] {
        assert_eq!(infer_language(command), Some("sh"), "{command:?}");
    }
    for other in [
        "pipeline = 1",
        "pip_version = 1",
        "python = 'x'",
        "date += 1",
        "sort == 1",
        "env in x",
        "set - other",
        "ls * 2",
        "find(1)",
        "head: int = 1",
        "make.run()",
        "Make it so",
    ] {
        assert_ne!(infer_language(other), Some("sh"), "{other:?}");
    }
}

#[cfg(feature = "infer")]
#[test]
fn the_parser_knows_python() {
    for code in crate::judged::PYTHON {
        assert_eq!(infer_language(code), Some("python"), "{code:?}");
    }
    for code in crate::judged::NOT_PYTHON {
        assert_eq!(infer_language(code), None, "{code:?}");
    }
}

#[cfg(not(feature = "infer"))]
#[test]
fn without_a_parser_python_is_not_known() {
    assert_eq!(infer_language("x = 1"), None);
}
