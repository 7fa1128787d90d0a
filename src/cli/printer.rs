//! The one printer: everything that the command says goes through here.
//!
//! It knows what stdout and stderr are. To a terminal only colour passes from text that came out of a container; to a pipe
//! or a file bytes go as they are.

use std::fmt;
use std::io::{self, IsTerminal as _, Read, Write};

use anyhow::{Chain, Context as _, Result};
use cellblock::{Error, Ran, TerminalFilter};

use super::args::Color;

/// The reader of stdout has gone.
#[derive(Debug, thiserror::Error)]
#[error("stdout was closed")]
pub(crate) struct Closed;

/// What was typed is not usable.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Stdout,
    Stderr,
}

/// Writes to stdout and stderr.
pub(crate) struct Printer {
    stdout: Side,
    stderr: Side,
}

struct Side {
    writer: Box<dyn Write + Send>,
    terminal: bool,
    colour: bool,
    /// Keeps state between pieces, since an escape sequence may come in two.
    filter: TerminalFilter,
    /// The last line has not ended yet.
    open: bool,
}

impl Printer {
    pub(crate) fn new(color: Color) -> Self {
        let colour = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            // By https://no-color.org an empty value counts as unset.
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        let side = |writer: Box<dyn Write + Send>, terminal: bool| Side {
            writer,
            terminal,
            colour: colour(terminal),
            filter: TerminalFilter::default(),
            open: false,
        };
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let (stdout_terminal, stderr_terminal) = (stdout.is_terminal(), stderr.is_terminal());
        Self { stdout: side(Box::new(stdout), stdout_terminal), stderr: side(Box::new(stderr), stderr_terminal) }
    }

    /// Whether a person reads there.
    pub(crate) fn is_terminal(&self, to: To) -> bool {
        self.side(to).terminal
    }

    /// Whether our own words there are coloured.
    pub(crate) fn is_coloured(&self, to: To) -> bool {
        self.side(to).colour
    }

    /// Prints text of the container as it came.
    pub(crate) fn text(&mut self, to: To, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let side = self.side_mut(to);
        let shown = if side.terminal { side.filter.push(text) } else { text.into() };
        let open = shown.as_bytes().last().map_or(side.open, |last| *last != b'\n');
        let written = side.write(shown.as_bytes());
        self.set_open(to, open);
        checked(to, written)
    }

    /// Prints output of the container's programs: to a pipe or a file the bytes themselves.
    pub(crate) fn bytes(&mut self, to: To, bytes: &[u8]) -> Result<()> {
        if self.side(to).terminal {
            return self.text(to, &String::from_utf8_lossy(bytes));
        }
        let Some(last) = bytes.last() else { return Ok(()) };
        self.set_open(to, *last != b'\n');
        let written = self.side_mut(to).write(bytes);
        checked(to, written)
    }

    /// Prints text of the container as lines of their own.
    pub(crate) fn block(&mut self, to: To, text: &str) -> Result<()> {
        self.begin_line(to)?;
        self.text(to, text)?;
        self.end_colour()?;
        self.begin_line(to)
    }

    /// Prints a file of the container's text from where it stands.
    pub(crate) fn copy(&mut self, to: To, mut file: impl Read) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        let mut kept = 0;
        loop {
            let read = file.read(buffer.get_mut(kept..).unwrap_or_default()).context("cannot read the text")?;
            let bytes = buffer.get(..kept + read).unwrap_or_default();
            // A character may be cut where the buffer ends; its beginning goes first next time.
            let whole = match std::str::from_utf8(bytes) {
                Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
                _ => bytes.len(),
            };
            let (whole, cut) = bytes.split_at_checked(whole).unwrap_or((bytes, &[]));
            let (text, cut) = (String::from_utf8_lossy(whole).into_owned(), cut.to_vec());
            self.text(to, &text)?;
            if read == 0 {
                return Ok(());
            }
            kept = cut.len();
            buffer.splice(..kept, cut);
        }
    }

    /// Ends colours and unfinished escape sequences, so that they do not run into what follows.
    pub(crate) fn end_colour(&mut self) -> Result<()> {
        for to in [To::Stdout, To::Stderr] {
            let side = self.side_mut(to);
            let reset = side.filter.end();
            if side.terminal && !reset.is_empty() {
                checked(to, side.write(reset.as_bytes()))?;
            }
        }
        Ok(())
    }

    /// Prints a line of our own on stdout: data that was asked for.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<()> {
        self.block(To::Stdout, &format!("{line}\n"))
    }

    /// Says something on stderr about what happened.
    pub(crate) fn note(&mut self, note: impl fmt::Display) {
        let note = self.painted(To::Stderr, "2", &note.to_string());
        let _ = self.block(To::Stderr, &note);
    }

    /// Tells on stderr of a failure: what was attempted, the causes, and a hint if one of them has it.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.failure(error.as_ref());
    }

    /// The same of the library's own.
    pub(crate) fn failure(&mut self, error: &(dyn std::error::Error + 'static)) {
        let label = self.painted(To::Stderr, "1;31", "error");
        let told: Vec<String> = Chain::new(error).map(ToString::to_string).collect();
        let _ = self.block(To::Stderr, &format!("{label}: {}", told.join(": ")));
        let mut causes = Chain::new(error).filter_map(|cause| cause.downcast_ref::<Error>());
        match causes.clone().map(Error::ran).next() {
            Some(Ran::Yes) => self.note("the code ran, at least in part"),
            Some(Ran::Unknown) => self.note("the code may have run"),
            _ => {}
        }
        if let Some(hint) = causes.find_map(Error::hint) {
            self.hint(hint);
        }
    }

    /// Says on stderr what can be done about a failure.
    pub(crate) fn hint(&mut self, hint: impl fmt::Display) {
        let label = self.painted(To::Stderr, "1;36", "hint");
        let _ = self.block(To::Stderr, &format!("{label}: {hint}"));
    }

    /// Prints a prompt on stderr; [`answered`](Self::answered) follows.
    pub(crate) fn prompt(&mut self, prompt: &str) {
        let _ = self.text(To::Stderr, prompt);
    }

    /// The terminal's own echo of Ctrl-C stands in the line.
    pub(crate) fn echoed_control(&mut self) {
        self.stdout.open |= self.stdout.terminal;
        self.stderr.open |= self.stderr.terminal;
    }

    /// A prompt got its answer. The terminal's echo ended the line, if there was an echo.
    pub(crate) fn answered(&mut self, echoed: bool) {
        if echoed {
            self.stdout.open &= !self.stdout.terminal;
            self.stderr.open &= !self.stderr.terminal;
        } else if self.stderr.terminal {
            let _ = self.begin_line(To::Stderr);
        }
    }

    /// Empties the line that is being written, where that is possible.
    pub(crate) fn clear_line(&mut self) -> Result<()> {
        if !self.stdout.terminal {
            return Ok(());
        }
        self.set_open(To::Stdout, false);
        checked(To::Stdout, self.stdout.write(b"\r\x1b[2K"))
    }

    /// Ends an unfinished line, so that what follows stands on its own.
    pub(crate) fn begin_line(&mut self, to: To) -> Result<()> {
        if !self.side(to).open {
            return Ok(());
        }
        self.set_open(to, false);
        checked(to, self.side_mut(to).write(b"\n"))
    }

    /// `text` in a colour of our own, by the numbers of SGR.
    pub(crate) fn painted(&self, to: To, sgr: &str, text: &str) -> String {
        if self.side(to).colour { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Notes whether the line is unfinished; on a shared screen it is one and the same line.
    fn set_open(&mut self, to: To, open: bool) {
        self.side_mut(to).open = open;
        if self.stdout.terminal && self.stderr.terminal {
            self.side_mut(to.other()).open = open;
        }
    }

    fn side(&self, to: To) -> &Side {
        match to {
            To::Stdout => &self.stdout,
            To::Stderr => &self.stderr,
        }
    }

    fn side_mut(&mut self, to: To) -> &mut Side {
        match to {
            To::Stdout => &mut self.stdout,
            To::Stderr => &mut self.stderr,
        }
    }
}

impl Side {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }
}

impl To {
    fn other(self) -> Self {
        match self {
            Self::Stdout => Self::Stderr,
            Self::Stderr => Self::Stdout,
        }
    }
}

/// Nobody is left to be told that stderr cannot be written; stdout is where the data goes.
fn checked(to: To, written: io::Result<()>) -> Result<()> {
    match (to, written) {
        (To::Stderr, _) | (_, Ok(())) => Ok(()),
        (To::Stdout, Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Closed.into()),
        (To::Stdout, Err(error)) => Err(error).context("cannot write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Torn;

    impl Write for Torn {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn side(writer: impl Write + Send + 'static, terminal: bool) -> Side {
        Side { writer: Box::new(writer), terminal, colour: false, filter: TerminalFilter::default(), open: false }
    }

    fn on_screen() -> (Printer, Paper) {
        let paper = Paper::default();
        (Printer { stdout: side(paper.clone(), true), stderr: side(paper.clone(), true) }, paper)
    }

    fn read(paper: &Paper) -> String {
        String::from_utf8(paper.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn what_shares_a_screen_shares_its_lines() {
        let (mut printer, paper) = on_screen();
        printer.text(To::Stdout, "open").unwrap();
        printer.note("note");
        printer.text(To::Stderr, "more").unwrap();
        printer.block(To::Stdout, "result").unwrap();
        printer.line("line").unwrap();
        assert_eq!(read(&paper), "open\nnote\nmore\nresult\nline\n");
    }

    #[test]
    fn pipes_are_apart() {
        let (out, err) = (Paper::default(), Paper::default());
        let mut printer = Printer { stdout: side(out.clone(), false), stderr: side(err.clone(), false) };
        printer.text(To::Stdout, "\x1b[2Jopen").unwrap();
        printer.note("note");
        printer.clear_line().unwrap();
        printer.block(To::Stdout, "result").unwrap();
        assert_eq!((read(&out).as_str(), read(&err).as_str()), ("\x1b[2Jopen\nresult\n", "note\n"));
    }

    #[test]
    fn a_sequence_in_two_pieces_does_not_pass() {
        let (mut printer, paper) = on_screen();
        printer.text(To::Stdout, "a\x1b]0;ti").unwrap();
        printer.text(To::Stdout, "tle\x07b\x1b[3").unwrap();
        printer.text(To::Stdout, "1mc").unwrap();
        printer.end_colour().unwrap();
        assert_eq!(read(&paper), "ab\x1b[31mc\x1b[0m");
    }

    #[test]
    fn a_long_file_is_copied_with_its_characters_whole() {
        let (mut printer, paper) = on_screen();
        let text = format!("x{}", "é".repeat(100_000));
        printer.copy(To::Stdout, text.as_bytes()).unwrap();
        assert_eq!(read(&paper), text);
    }

    #[test]
    fn a_reader_that_has_gone_is_told_apart() {
        let mut printer = Printer { stdout: side(Torn, false), stderr: side(Torn, false) };
        assert!(printer.line("line").unwrap_err().is::<Closed>());
        printer.note("nobody hears it, and nobody is told");
    }
}
