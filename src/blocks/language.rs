//! What language a piece of code without a name is in.

/// Commands that a script often begins with.
const COMMANDS: &[&str] = &[
    "apt", "apt-get", "awk", "bash", "cat", "cd", "chmod", "cmake", "conda", "cp", "curl", "date", "df", "docker",
    "du", "echo", "env", "export", "find", "git", "grep", "head", "ls", "make", "mkdir", "mv", "node", "npm", "npx",
    "pip", "pip3", "pipx", "printf", "ps", "pwd", "pytest", "python", "python3", "rm", "sed", "set", "sh", "sort",
    "source", "sudo", "tail", "tar", "touch", "unzip", "uv", "wc", "wget", "which", "whoami",
];

/// The language of a piece of code that nobody has named, or none if it cannot be told.
///
/// A `#!` line decides; code whose first line calls a well-known command, such as `pip install rich`, is `sh`. With the feature `infer`, what Python's grammar,
/// IPython's `!` and `%` lines included, takes as a whole is `python`; without it [`Session::run_blocks`](crate::Session::run_blocks) asks the kernel.
///
/// ```
/// # use cellblock::infer_language;
/// assert_eq!(infer_language("# first\npip install rich"), Some("sh"));
/// assert_eq!(infer_language("#!/usr/bin/env python3\nprint(1)"), Some("python"));
/// assert_eq!(infer_language("Dear reader,"), None);
/// ```
#[must_use]
pub fn infer_language(code: &str) -> Option<&'static str> {
    by_rules(code).or_else(|| by_grammar(code))
}

fn by_rules(code: &str) -> Option<&'static str> {
    if let Some(line) = code.strip_prefix("#!") {
        return of_interpreter(line.lines().next().unwrap_or_default());
    }
    let first = code.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    is_command(first).then_some("sh")
}

fn of_interpreter(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let program = words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    match program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.') {
        "python" => Some("python"),
        "bash" => Some("bash"),
        "sh" | "dash" | "ash" => Some("sh"),
        "pwsh" => Some("pwsh"),
        "node" => Some("javascript"),
        _ => None,
    }
}

/// Whether a line calls a command; `date = x`, `sort + 1` and `find in x` are Python.
fn is_command(line: &str) -> bool {
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let next = rest.split_whitespace().next().unwrap_or_default();
    let operator = next.ends_with('=') || matches!(next, "+" | "-" | "*" | "/" | "//" | "%" | "@" | "**");
    COMMANDS.contains(&word) && !operator && !matches!(next, "in" | "is" | "and" | "or" | "not" | "if" | ":")
}

#[cfg(not(feature = "infer"))]
fn by_grammar(_: &str) -> Option<&'static str> {
    None
}

#[cfg(feature = "infer")]
fn by_grammar(code: &str) -> Option<&'static str> {
    (code.len() <= grammar::LONGEST && grammar::takes(code)).then_some("python")
}

#[cfg(feature = "infer")]
mod grammar {
    use std::panic::catch_unwind;
    use std::thread;

    use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};

    /// The longest code that is judged here, in bytes; the kernel takes longer ones.
    pub(super) const LONGEST: usize = 64 << 10;
    /// Python's own tokenizer takes no deeper brackets, and the time that the parser needs for f-strings in f-strings grows by the square.
    const NESTING: usize = 200;
    /// More than a level of the syntax tree needs when it is dropped, and a level is a byte of code at least.
    const STACK: usize = 1 << 10;

    /// Code this short, in bytes, fits on any stack.
    const SHORT: usize = 512;

    /// Whether Python's grammar takes the code. A tree such as that of `----1` is as deep as the code is long, and is dropped by
    /// recursion: hence the stack.
    pub(super) fn takes(code: &str) -> bool {
        nesting(code) <= NESTING && if code.len() <= SHORT { parses(code) } else { parses_on(STACK * code.len(), code) }
    }

    fn parses(code: &str) -> bool {
        let parse = || parse_unchecked(code, ParseOptions::from(Mode::Ipython)).has_valid_syntax();
        catch_unwind(parse).unwrap_or(false)
    }

    fn parses_on(stack: usize, code: &str) -> bool {
        let judge = thread::Builder::new().name("grammar".into()).stack_size((1 << 20) + stack);
        thread::scope(|scope| {
            let judging = judge.spawn_scoped(scope, || parses(code));
            judging.is_ok_and(|judging| judging.join().unwrap_or(false))
        })
    }

    /// How deep brackets are in brackets at most, those in texts and comments counted too.
    fn nesting(code: &str) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        for byte in code.bytes() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        deepest
    }
}
