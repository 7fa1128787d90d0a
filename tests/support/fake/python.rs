//! The language of the fake kernel: a few statements that mean the same to a real one, so that tests can run the same
//! code on both, and words that begin with `%` for what Python cannot be asked to do.
//!
//! ```text
//! import ANYTHING            from ANYTHING             # comment           pass
//! NAME = EXPR                NAME += EXPR              EXPR                raise NAME(EXPR)
//! for NAME in range(EXPR): STATEMENT                   await asyncio.sleep(EXPR)
//! while True: pass           while True: BLOCK         a block with `except KeyboardInterrupt` ignores interrupts
//! ```
//!
//! EXPR has numbers, strings, names, dictionaries, `== + - * /` and calls. Anything else is a `SyntaxError`.

use std::fmt;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Dict(Vec<(String, Value)>),
}

impl Value {
    /// As `repr` writes it.
    pub(crate) fn repr(&self) -> String {
        match self {
            Self::Str(text) => {
                format!(
                    "'{}'",
                    text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\0', "\\x00")
                )
            }
            Self::Dict(items) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|(name, value)| format!("{}: {}", Self::Str(name.clone()).repr(), value.repr()))
                    .collect();
                format!("{{{}}}", items.join(", "))
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn seconds(&self) -> std::time::Duration {
        let seconds = match self {
            Self::Int(seconds) => *seconds as f64,
            Self::Float(seconds) => *seconds,
            _ => 0.0,
        };
        std::time::Duration::from_secs_f64(seconds.max(0.0))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Str(text) => f.write_str(text),
            Self::Dict(_) => f.write_str(&self.repr()),
        }
    }
}

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Value(Value),
    Name(String),
    Dict(Vec<(Expr, Expr)>),
    Operation(char, Box<Expr>, Box<Expr>),
    Call(Call),
}

/// A call, with keyword arguments after the others.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Vec<Expr>,
    pub(crate) named: Vec<(String, Expr)>,
}

/// A statement.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Nothing,
    Assign(String, Expr),
    Expr(Expr),
    Raise(String, Expr),
    For(String, Expr, Box<Statement>),
    AwaitSleep(Expr),
    Loop { ignores_interrupts: bool },
    Word(String, String),
}

/// Reads a cell; an error is the message of a `SyntaxError`.
pub(crate) fn parse(code: &str) -> Result<Vec<Statement>, String> {
    let mut lines = code.lines().peekable();
    let mut statements = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim_end() == "while True:" {
            let mut block = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with([' ', '\t'])) {
                block.push_str(line);
            }
            statements.push(Statement::Loop { ignores_interrupts: block.contains("except KeyboardInterrupt") });
            continue;
        }
        for text in split(line) {
            statements.push(statement(text.trim_end())?);
        }
    }
    Ok(statements)
}

/// Splits a line at semicolons outside of strings.
fn split(line: &str) -> Vec<&str> {
    if line.starts_with('%') {
        return vec![line];
    }
    let mut quote = None;
    let mut escaped = false;
    line.split(move |char: char| {
        if escaped {
            escaped = false;
        } else if char == '\\' {
            escaped = true;
        } else if quote == Some(char) {
            quote = None;
        } else if quote.is_none() && (char == '"' || char == '\'') {
            quote = Some(char);
        }
        char == ';' && quote.is_none()
    })
    .map(|part| part.strip_prefix(' ').unwrap_or(part))
    .collect()
}

fn statement(text: &str) -> Result<Statement, String> {
    if let Some(word) = text.strip_prefix('%') {
        let (word, rest) = word.split_once(' ').unwrap_or((word, ""));
        return Ok(Statement::Word(word.to_owned(), rest.to_owned()));
    }
    let first = text.split(' ').next().unwrap_or_default();
    if text.is_empty() || text.starts_with('#') || matches!(first, "import" | "from" | "pass") {
        return Ok(Statement::Nothing);
    }
    if text == "while True: pass" {
        return Ok(Statement::Loop { ignores_interrupts: false });
    }
    if let Some(rest) = text.strip_prefix("raise ") {
        return match expression(rest)? {
            Expr::Call(Call { name, mut args, .. }) if args.len() < 2 => {
                Ok(Statement::Raise(name, args.pop().unwrap_or(Expr::Value(Value::Str(String::new())))))
            }
            _ => Err("only `raise NAME(EXPR)` is known".to_owned()),
        };
    }
    if let Some((name, rest)) = text.strip_prefix("for ").and_then(|rest| rest.split_once(" in range(")) {
        let (count, body) = rest.split_once("): ").ok_or("only `for NAME in range(EXPR): STATEMENT` is known")?;
        return Ok(Statement::For(name.to_owned(), expression(count)?, Box::new(statement(body)?)));
    }
    if let Some(rest) = text.strip_prefix("await ") {
        return match expression(rest)? {
            Expr::Call(Call { name, mut args, .. }) if name == "asyncio.sleep" && args.len() == 1 => {
                Ok(Statement::AwaitSleep(args.remove(0)))
            }
            _ => Err("only `await asyncio.sleep(EXPR)` is known".to_owned()),
        };
    }
    for (operator, add) in [(" += ", true), (" = ", false)] {
        if let Some((name, rest)) = text.split_once(operator).filter(|(name, _)| is_name(name)) {
            let mut value = expression(rest)?;
            if add {
                value = Expr::Operation('+', Box::new(Expr::Name(name.to_owned())), Box::new(value));
            }
            return Ok(Statement::Assign(name.to_owned(), value));
        }
    }
    expression(text).map(Statement::Expr)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && text.chars().all(|char| char.is_alphanumeric() || char == '_' || char == '.')
}

fn expression(text: &str) -> Result<Expr, String> {
    let mut parser = Parser { rest: text };
    let expr = parser.comparison()?;
    if parser.peek().is_some() { Err(parser.invalid()) } else { Ok(expr) }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches(' ');
        self.rest.chars().next()
    }

    fn take(&mut self, char: char) -> bool {
        let found = self.peek() == Some(char);
        if found {
            self.rest = &self.rest[char.len_utf8()..];
        }
        found
    }

    fn invalid(&self) -> String {
        format!("invalid syntax, or too much of it for the fake kernel, at {:?}", self.rest)
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        let left = self.sum()?;
        if self.peek() != Some('=') || !self.rest.starts_with("==") {
            return Ok(left);
        }
        self.rest = &self.rest[2..];
        Ok(Expr::Operation('=', Box::new(left), Box::new(self.sum()?)))
    }

    fn sum(&mut self) -> Result<Expr, String> {
        self.operations(&['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Expr, String> {
        self.operations(&['*', '/'], Self::atom)
    }

    fn operations(&mut self, signs: &[char], part: fn(&mut Self) -> Result<Expr, String>) -> Result<Expr, String> {
        let mut left = part(self)?;
        while let Some(sign) = self.peek().filter(|sign| signs.contains(sign)) {
            self.take(sign);
            left = Expr::Operation(sign, Box::new(left), Box::new(part(self)?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expr, String> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => self.string(quote).map(|text| Expr::Value(Value::Str(text))),
            Some('0'..='9') => self.number(),
            Some('{') => self.dict(),
            Some('(') => {
                self.take('(');
                let expr = self.sum()?;
                if self.take(')') { Ok(expr) } else { Err(self.invalid()) }
            }
            Some(char) if char.is_alphabetic() || char == '_' => self.name(),
            _ => Err(self.invalid()),
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|char| !belongs(char)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn number(&mut self) -> Result<Expr, String> {
        let digits = self.word(|char| char.is_ascii_digit() || char == '.' || char == '_').replace('_', "");
        let value = match digits.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Float(digits.parse().map_err(|_| self.invalid())?),
        };
        Ok(Expr::Value(value))
    }

    fn name(&mut self) -> Result<Expr, String> {
        let name = self.word(|char| char.is_alphanumeric() || char == '_' || char == '.');
        match name.as_str() {
            "True" => return Ok(Expr::Value(Value::Bool(true))),
            "False" => return Ok(Expr::Value(Value::Bool(false))),
            "None" => return Ok(Expr::Value(Value::None)),
            _ if !self.take('(') => return Ok(Expr::Name(name)),
            _ => {}
        }
        let (mut args, mut named) = (Vec::new(), Vec::new());
        while !self.take(')') {
            let key =
                self.rest.split_once('=').map(|(key, _)| key.trim()).filter(|key| is_name(key)).map(str::to_owned);
            if let Some(key) = key {
                self.rest = self.rest.split_once('=').map_or("", |(_, rest)| rest);
                named.push((key, self.sum()?));
            } else {
                args.push(self.sum()?);
            }
            if !self.take(',') && self.peek() != Some(')') {
                return Err(self.invalid());
            }
        }
        Ok(Expr::Call(Call { name, args, named }))
    }

    fn dict(&mut self) -> Result<Expr, String> {
        self.take('{');
        let mut items = Vec::new();
        while !self.take('}') {
            let key = self.sum()?;
            if !self.take(':') {
                return Err(self.invalid());
            }
            items.push((key, self.sum()?));
            if !self.take(',') && self.peek() != Some('}') {
                return Err(self.invalid());
            }
        }
        Ok(Expr::Dict(items))
    }

    fn string(&mut self, quote: char) -> Result<String, String> {
        self.take(quote);
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => match chars.next().map(|(_, char)| char) {
                    Some('n') => text.push('\n'),
                    Some('0') => text.push('\0'),
                    Some(char) => text.push(char),
                    None => break,
                },
                _ if char == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                _ => text.push(char),
            }
        }
        Err("unterminated string literal".to_owned())
    }
}
