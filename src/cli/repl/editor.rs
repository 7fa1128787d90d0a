//! The line editor, on a thread of its own since it blocks.

use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use reedline::{
    ColumnarMenu, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder as _, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use tokio::sync::oneshot;

use super::complete::{AskKernel, Indent};
use super::completer::FromKernel;
use super::dedent::{Blank, Dedenting};
use super::kernel::Kernel;
use super::look::{InPrompt, Python};

const COMPLETIONS: &str = "completions";

/// What came of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Typed(String),
    /// Ctrl-C: whatever was typed is dropped.
    Cleared,
    /// Ctrl-D.
    Closed,
}

/// The thread's handle. It reads only while a line is asked for, so that stdin is free while cells run.
#[derive(Debug)]
pub(super) struct Editor {
    prompts: mpsc::Sender<(InPrompt, oneshot::Sender<Result<Line>>)>,
}

impl Editor {
    pub(super) fn start(kernel: Kernel, history: Option<FileBackedHistory>, colour: bool) -> Result<Self> {
        let (prompts, asked) = mpsc::channel::<(InPrompt, oneshot::Sender<Result<Line>>)>();
        let serve = move || {
            let indent = Indent::default();
            let mut reedline = reedline(kernel, history, &indent, colour);
            while let Ok((prompt, answer)) = asked.recv() {
                let _ = answer.send(read(&mut reedline, &prompt, &indent));
            }
        };
        thread::Builder::new().name("editor".into()).spawn(serve).context("cannot start the line editor")?;
        Ok(Self { prompts })
    }

    /// Lets somebody type a cell.
    pub(super) async fn read(&self, prompt: InPrompt) -> Result<Line> {
        let (answer, line) = oneshot::channel();
        let ended = || anyhow!("the line editor has ended");
        self.prompts.send((prompt, answer)).map_err(|_| ended())?;
        line.await.map_err(|_| ended())?
    }
}

fn read(reedline: &mut Reedline, prompt: &InPrompt, indent: &Indent) -> Result<Line> {
    loop {
        let line = match reedline.read_line(prompt).context("cannot read from the terminal")? {
            Signal::Success(code) => Line::Typed(code),
            Signal::CtrlC => Line::Cleared,
            Signal::CtrlD => Line::Closed,
            // A new line was begun: its indent goes in, and the editing goes on where it was.
            Signal::ExternalBreak(_) => {
                reedline.run_edit_commands(&[EditCommand::InsertString(indent.take())]);
                continue;
            }
            _ => continue,
        };
        // At once, so that a kill does not lose it. A disk that is full must not end the work.
        if let Err(error) = reedline.sync_history() {
            tracing::warn!(%error, "the history could not be saved");
        }
        return Ok(line);
    }
}

fn reedline(kernel: Kernel, history: Option<FileBackedHistory>, indent: &Indent, colour: bool) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(COMPLETIONS.into()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, ReedlineEvent::Edit(vec![EditCommand::InsertNewline]));
    let blank = Blank::default();
    let menu = ColumnarMenu::default().with_name(COMPLETIONS).with_marker("");
    let reedline = Reedline::create()
        .with_ansi_colors(colour)
        .with_edit_mode(Box::new(Dedenting { keys: Emacs::new(keys), blank: blank.clone() }))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_completer(Box::new(FromKernel::new(kernel.clone())))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_validator(Box::new(AskKernel { kernel, indent: indent.clone() }))
        .with_break_signal(indent.ready.clone())
        .with_highlighter(Box::new(Python { blank }))
        .use_bracketed_paste(true);
    match history {
        Some(history) => reedline.with_history(Box::new(history)),
        None => reedline,
    }
}
