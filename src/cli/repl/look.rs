//! How the line that is being typed looks: prompts and colours.

use std::borrow::Cow;

use reedline::{
    Color, Highlighter, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, StyledText,
};

use super::dedent::Blank;
use super::lexer::{Kind, lex};

/// `In [3]: `, and dots under it.
#[derive(Debug, Clone)]
pub(super) struct InPrompt {
    label: String,
    dots: String,
}

impl InPrompt {
    /// The number is not known before a session that was there already has run a cell.
    pub(super) fn new(number: Option<u32>) -> Self {
        let label = number.map_or_else(|| "In [ ]: ".to_owned(), |number| format!("In [{number}]: "));
        let dots = format!("{:>1$}", "...: ", label.len());
        Self { label, dots }
    }
}

impl Prompt for InPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        self.label.as_str().into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        self.dots.as_str().into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        match search.status {
            PromptHistorySearchStatus::Passing => format!("search `{}`: ", search.term).into(),
            PromptHistorySearchStatus::Failing => format!("no `{}`: ", search.term).into(),
        }
    }

    fn get_prompt_color(&self) -> Color {
        Color::Green
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Green
    }
}

/// Colours Python, and notes what stands before the cursor.
pub(super) struct Python {
    pub(super) blank: Blank,
}

impl Highlighter for Python {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        self.blank.note(line, cursor);
        let mut styled = StyledText::new();
        for (kind, range) in lex(line).pieces {
            let colour = match kind {
                Kind::Keyword => Color::Blue,
                Kind::Number => Color::Cyan,
                Kind::Text => Color::Yellow,
                Kind::Comment => Color::DarkGray,
                Kind::Other => Color::Default,
            };
            styled.push((colour.normal(), line.get(range).unwrap_or_default().to_owned()));
        }
        styled
    }
}
