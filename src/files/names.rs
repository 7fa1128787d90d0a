//! Names of files: those that callers give, and those that come out of a container.

use std::fmt;

use super::failure::Attempt;
use crate::error::{Error, Kind};

/// Where the work directory is for those who name it in full.
const ROOTS: [&str; 2] = ["/mnt/data", "/workspace"];
const NAME_LIMIT: usize = 255;
const PATH_LIMIT: usize = 4096;
/// How deep a tree may be that comes out of a container.
const DEPTH_LIMIT: usize = 66;

/// A path in the work directory as a caller gave it. The work directory itself is `.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkPath(String);

impl WorkPath {
    /// Checks it.
    pub(super) fn parse(path: &str, attempt: &Attempt) -> Result<Self, Error> {
        Self::check(path).map_err(|why| {
            attempt.error(Kind::Usage).with_source(why).with_hint(
                "a path is relative to the work directory, or begins with /mnt/data/ or /workspace/, and never leaves it",
            )
        })
    }

    pub(super) fn check(path: &str) -> Result<Self, &'static str> {
        if path.is_empty() {
            return Err("the path is empty");
        }
        if path.contains('\0') {
            return Err("the path has a NUL in it");
        }
        let stripped = ROOTS.iter().find_map(|root| {
            let rest = path.strip_prefix(root)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        });
        let relative = match stripped {
            Some(rest) => rest,
            None if path.starts_with('/') => return Err("the path is not in the work directory"),
            None => path,
        };
        let parts: Vec<&str> = relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return Err("the path has `..` in it");
        }
        if relative.len() > PATH_LIMIT || parts.iter().any(|part| part.len() > NAME_LIMIT) {
            return Err("the path is too long");
        }
        Ok(Self(parts.join("/")))
    }

    /// Refuses the work directory itself, which stays.
    pub(super) fn check_change(&self, attempt: &Attempt) -> Result<(), Error> {
        if self.0.is_empty() {
            return Err(attempt.error(Kind::Usage).with_source("it is the work directory itself"));
        }
        Ok(())
    }

    /// As the bridge takes it: the work directory is empty.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Of something below it.
    pub(super) fn join(&self, below: &str) -> String {
        match (self.0.is_empty(), below.is_empty()) {
            (true, true) => ".".to_owned(),
            (true, false) => below.to_owned(),
            (false, true) => self.0.clone(),
            (false, false) => format!("{}/{below}", self.0),
        }
    }
}

impl fmt::Display for WorkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.join(""))
    }
}

/// Whether a path that came out of a container stays below where it belongs.
pub(super) fn is_below(path: &str) -> bool {
    let mut depth = 0;
    path.split('/').all(|part| {
        depth += 1;
        // What is not UTF-8 has become three bytes for each.
        !matches!(part, "" | "." | "..") && part.len() <= NAME_LIMIT * 3 && !part.contains('\0') && depth <= DEPTH_LIMIT
    })
}

/// Whether a file of that name may be made on the host, or be sent with its tree.
pub(super) fn is_plain(name: &str) -> bool {
    name.len() <= NAME_LIMIT && !name.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> Option<String> {
        WorkPath::check(path).ok().map(|path| path.0)
    }

    #[test]
    fn a_path_leads_into_the_work_directory() {
        for (given, meant) in [
            ("a.csv", "a.csv"),
            ("./a//b/", "a/b"),
            ("/mnt/data/a.csv", "a.csv"),
            ("/workspace/a/b", "a/b"),
            ("/workspace", ""),
            (".", ""),
            ("...", "..."),
            ("a\nb\x1b[2J", "a\nb\x1b[2J"),
            ("workspace/a", "workspace/a"),
        ] {
            assert_eq!(parsed(given).as_deref(), Some(meant), "{given:?}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        let long = "x".repeat(256);
        for given in ["", "a\0b", "/etc/passwd", "/mnt/database", "/workspaces/a", "..", "a/../../b", "a/..", &long] {
            assert_eq!(parsed(given), None, "{given:?}");
        }
    }

    #[test]
    fn what_comes_out_stays_below() {
        assert!(is_below("a/b/c"));
        let deep = vec!["a"; DEPTH_LIMIT + 1].join("/");
        for path in ["", "/a", "a/", "a//b", "a/../b", ".", "..", "a\0", &deep] {
            assert!(!is_below(path), "{path:?}");
        }
    }

    #[test]
    fn names_with_control_characters_are_not_plain() {
        assert!(is_plain("a b é 数"));
        for name in ["a\nb", "\x1b[2J", "\u{9b}0m", "\x7f"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
