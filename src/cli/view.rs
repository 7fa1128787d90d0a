//! One cell's events as a person, or a pipe, sees them.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};

use anyhow::Result;
use cellblock::{Event, Execution, MimeBundle, Output, PythonError, Status, Text};

use super::figures::{Figures, Saved, has_figure};
use super::outcome;
use super::printer::{Printer, To};

/// Where the outputs of cells go.
pub(crate) struct Screen<'a> {
    pub(crate) printer: &'a mut Printer,
    pub(crate) figures: &'a mut Figures,
    /// Results have a label in front of them, as in IPython.
    pub(crate) labelled: bool,
}

/// What of a cell has been shown so far.
#[derive(Debug, Default)]
pub(crate) struct View {
    stdout: u64,
    stderr: u64,
    displays: usize,
    result: bool,
    error: bool,
    /// Events were lost. What is missing is taken from the finished execution, all at once.
    lagged: bool,
}

impl View {
    /// Of a cell whose events went to somebody else.
    pub(crate) fn of_finished() -> Self {
        Self { lagged: true, ..Self::default() }
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event, screen: &mut Screen<'_>) -> Result<()> {
        if let Event::Paused { container } = event {
            screen.printer.note(format_args!("the container is paused: `docker unpause {container}` lets it go on"));
            return Ok(());
        }
        if self.lagged {
            return Ok(());
        }
        match event {
            Event::Stdout(text) => {
                self.stdout += text.len() as u64;
                screen.printer.text(To::Stdout, text)
            }
            Event::Stderr(text) => {
                self.stderr += text.len() as u64;
                screen.printer.text(To::Stderr, text)
            }
            Event::Display { bundle, display_id } => {
                self.displays += 1;
                screen.display(bundle, display_id.as_deref())
            }
            Event::UpdateDisplay { bundle, display_id } => screen.display(bundle, Some(display_id)),
            Event::Result { bundle, execution_count } => {
                self.result = true;
                screen.result(bundle, *execution_count)
            }
            Event::Error(error) => {
                self.error = true;
                screen.traceback(error)
            }
            Event::ClearOutput { .. } => screen.printer.clear_line(),
            Event::Lagged { .. } => {
                self.lagged = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Shows what has not been shown yet, and says how it ended.
    pub(crate) fn done(self, execution: &Execution, screen: &mut Screen<'_>) -> Result<()> {
        if self.lagged {
            screen.rest(To::Stdout, &execution.stdout, self.stdout)?;
            screen.rest(To::Stderr, &execution.stderr, self.stderr)?;
            let displays = execution.outputs.iter().filter_map(|output| match output {
                Output::DisplayData(bundle) => Some(bundle),
                _ => None,
            });
            for bundle in displays.skip(self.displays) {
                screen.display(bundle, None)?;
            }
            if let Some(bundle) = execution.result.as_ref().filter(|_| !self.result) {
                screen.result(bundle, execution.execution_count)?;
            }
        }
        if let Status::Error(error) = &execution.status
            && !self.error
        {
            screen.traceback(error)?;
        }
        screen.printer.end_colour()?;
        if execution.outputs_left_out > 0 {
            screen.printer.note(format_args!("displays left out: {}", execution.outputs_left_out));
        }
        if let Some(words) = outcome::describe(execution) {
            screen.printer.note(words);
        }
        Ok(())
    }
}

impl Screen<'_> {
    /// Saves the bundle's figures, and says so.
    pub(crate) fn save(&mut self, bundle: &MimeBundle, display_id: Option<&str>) {
        let Saved { paths, left_out } = match self.figures.save(bundle, display_id) {
            Ok(saved) => saved,
            // A full disk of the host is no reason to stop the code.
            Err(error) => {
                self.figures.failed = true;
                self.printer.error(&error);
                return;
            }
        };
        for path in paths {
            self.printer.note(format_args!("saved {}", path.display()));
        }
        if left_out > 0 {
            let why = "it is not what it says, or the limit of 1000 figures or 1 GiB is reached";
            self.printer.note(format_args!("a figure was left out: {why}"));
        }
    }

    fn display(&mut self, bundle: &MimeBundle, display_id: Option<&str>) -> Result<()> {
        if has_figure(bundle) {
            self.save(bundle, display_id);
            return Ok(());
        }
        match shown(bundle) {
            Some(text) => self.printer.block(To::Stdout, &text),
            None => {
                let kinds: Vec<&str> = bundle.data.keys().map(String::as_str).collect();
                self.printer.note(format_args!("a display that has no text is left out: {}", kinds.join(", ")));
                Ok(())
            }
        }
    }

    fn result(&mut self, bundle: &MimeBundle, execution_count: Option<u32>) -> Result<()> {
        self.save(bundle, None);
        let Some(text) = shown(bundle) else { return self.display(bundle, None) };
        match execution_count.filter(|_| self.labelled) {
            Some(count) => {
                let label = self.printer.painted(To::Stdout, "31", &format!("Out[{count}]:"));
                let space = if text.contains('\n') { '\n' } else { ' ' };
                self.printer.block(To::Stdout, &format!("{label}{space}{text}"))
            }
            None => self.printer.block(To::Stdout, &text),
        }
    }

    fn traceback(&mut self, error: &PythonError) -> Result<()> {
        let text = match error.traceback.as_slice() {
            [] => error.to_string(),
            parts if self.printer.is_coloured(To::Stderr) => parts.join("\n"),
            _ => error.traceback_plain().join("\n"),
        };
        self.printer.block(To::Stderr, &text)
    }

    /// Prints what follows the first `shown` bytes of a text.
    fn rest(&mut self, to: To, text: &Text, shown: u64) -> Result<()> {
        if shown >= text.total_bytes {
            return Ok(());
        }
        if !text.truncated {
            let from = usize::try_from(shown).unwrap_or(usize::MAX);
            return self.printer.text(to, text.text.get(from..).unwrap_or_default());
        }
        if let (Some(path), Some(length)) = (&text.spill, text.spill_bytes)
            && length == text.total_bytes
            && let Ok(mut file) = File::open(path)
            && file.seek(SeekFrom::Start(shown)).is_ok()
        {
            return self.printer.copy(to, file);
        }
        self.printer
            .note("output came faster than it could be printed, and not all of it was kept; its head and tail:");
        self.printer.block(to, &text.text)
    }
}

/// A bundle as text.
fn shown(bundle: &MimeBundle) -> Option<String> {
    let text = ["text/plain", "text/markdown", "text/latex"].into_iter().find_map(|mime| bundle.get(mime));
    text.map(str::to_owned).or_else(|| bundle.data.get("application/json").map(ToString::to_string))
}
