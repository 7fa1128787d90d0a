//! Which files a block has made, by looking before and after it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::SystemTime;

use crate::{FileEntry, FileKind, Session};

/// The regular files of the work directory as they were at one moment.
#[derive(Debug, Default)]
pub(super) struct Listing(BTreeMap<String, Mark>);

/// What changes with the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    size: u64,
    modified: Option<SystemTime>,
}

impl Listing {
    /// None if it cannot be had: a session that has ended, or more files than a listing takes.
    pub(super) async fn take(session: &Session) -> Option<Self> {
        match session.files().list_tree(".").await {
            Ok(entries) => Some(Self::of(entries)),
            Err(error) => {
                tracing::debug!(%error, "output files are not looked for");
                None
            }
        }
    }

    fn of(entries: Vec<FileEntry>) -> Self {
        let files = entries.into_iter().filter(|entry| entry.kind == FileKind::File && !is_incidental(&entry.path));
        Self(files.map(|entry| (entry.path, Mark { size: entry.size, modified: entry.modified })).collect())
    }

    /// The files that are named in a text, or are not as they were before; `before` is none if that is not known.
    pub(super) fn outputs(&self, before: Option<&Self>, text: &str) -> BTreeSet<String> {
        let changed = |(path, mark): &(&String, &Mark)| before.is_some_and(|before| before.0.get(*path) != Some(*mark));
        let changed = self.0.iter().filter(changed).map(|(path, _)| path);
        let named: HashSet<&str> = words(text).collect();
        let named = self.0.keys().filter(|path| named.contains(path.as_str()));
        changed.chain(named).cloned().collect()
    }
}

/// Caches of Python, and what is on its way in.
fn is_incidental(path: &str) -> bool {
    path.split('/').any(|part| part == "__pycache__" || part.starts_with(".cellblock-"))
}

/// What in a text may be a file's name: words, and what stands in quotes. A word without a dot or a slash is none, even if there is a file of that name.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let bare = text.split_whitespace().flat_map(|word| [Some(word), word.split_once('=').map(|(_, value)| value)]);
    let quoted = ['\'', '"', '`'].into_iter().flat_map(|quote| text.lines().flat_map(move |line| between(line, quote)));
    bare.flatten().map(trimmed).chain(quoted).map(relative).filter(|word| word.contains(['.', '/']))
}

/// The pieces of a line that stand between two quotes, whichever of them open and which close.
fn between(line: &str, quote: char) -> impl Iterator<Item = &str> {
    let pieces = line.matches(quote).count().saturating_sub(1);
    line.split(quote).skip(1).take(pieces)
}

fn trimmed(word: &str) -> &str {
    let word = word.trim_start_matches(['\'', '"', '`', '(', '[', '{', '<', '*']);
    word.trim_end_matches(['\'', '"', '`', ')', ']', '}', '>', '*', '.', ',', ';', ':', '!', '?', '…'])
}

fn relative(name: &str) -> &str {
    let name = name.strip_prefix("file://").unwrap_or(name);
    ["/workspace/", "/mnt/data/", "./"].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn listing(files: &[(&str, u64, u64)]) -> Listing {
        let mark = |size, at| Mark { size, modified: Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(at)) };
        Listing(files.iter().map(|(path, size, at)| ((*path).to_owned(), mark(*size, *at))).collect())
    }

    #[test]
    fn files_named_in_the_output_are_found() {
        let files =
            ["plot.png", "jpg", "my chart.png", "out/a b.csv", "a.tar.gz", "Makefile", "out/raw", "été.svg", "x.py"];
        let files = listing(&files.map(|name| (name, 1, 1)));
        for (output, named) in [
            ("saved plot.png", vec!["plot.png"]),
            ("saved to 'plot.png'.", vec!["plot.png"]),
            ("`plot.png`, ./a.tar.gz!", vec!["a.tar.gz", "plot.png"]),
            ("/workspace/plot.png and /mnt/data/out/raw", vec!["out/raw", "plot.png"]),
            ("file:///mnt/data/plot.png", vec!["plot.png"]),
            ("path=plot.png", vec!["plot.png"]),
            ("[('out/a b.csv', 'my chart.png')]", vec!["my chart.png", "out/a b.csv"]),
            ("it's \"my chart.png\"", vec!["my chart.png"]),
            ("été.svg…", vec!["été.svg"]),
            // TapeAgents takes any `jpg`, and what is not there.
            ("a jpg, see the Makefile", vec![]),
            ("missing.png image.jpg jpeg", vec![]),
            ("myplot.png plot.pngs /tmp/plot.png", vec![]),
            ("", vec![]),
        ] {
            let found = files.outputs(None, output);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), named, "{output}");
        }
    }

    #[test]
    fn files_that_are_new_or_other_than_before_are_found() {
        let before = listing(&[("same", 1, 1), ("grown", 1, 1), ("rewritten", 1, 1), ("removed", 1, 1)]);
        let after = listing(&[("same", 1, 1), ("grown", 2, 1), ("rewritten", 1, 2), ("new", 0, 3)]);
        let found = after.outputs(Some(&before), "");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["grown", "new", "rewritten"]);
        assert!(after.outputs(None, "").is_empty());
    }

    #[test]
    fn caches_are_no_outputs() {
        assert!(is_incidental("__pycache__/x.pyc") && is_incidental("a/__pycache__/x.pyc"));
        assert!(is_incidental(".cellblock-1234") && !is_incidental(".hidden"));
    }
}
