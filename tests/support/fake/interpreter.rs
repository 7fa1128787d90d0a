//! Runs the cells of a fake kernel.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use tokio::sync::watch;

use super::hostile;
use super::kernel::{End, Request, Shared, kernel_info, or_interrupt};
use super::python::{self, Call, Expr, Statement, Value};
use super::wire::Asked;

/// A stream message of an honest kernel holds at most this much text.
const STREAM_CHUNK: usize = 256 * 1024;

/// What came of a cell.
pub(super) struct Cell {
    pub(super) reply: Option<Json>,
    pub(super) goes_idle: bool,
    /// The process ends when it is idle.
    pub(super) end: Option<End>,
}

/// Why a cell does not go on.
enum Stop {
    Raised(String, String),
    /// The process has ended.
    Ended,
}

type Evaluated<'a> = Pin<Box<dyn Future<Output = Result<Value, Stop>> + Send + 'a>>;

/// The main thread's state, which lasts as long as the process.
pub(super) struct Interpreter {
    shared: Arc<Shared>,
    interrupts: watch::Receiver<u64>,
    variables: BTreeMap<String, Value>,
    execution_count: u32,
    displays: u32,
    /// Text that was written and not sent yet, and to which stream.
    written: (&'static str, String),
    mute: (bool, bool),
    end: Option<End>,
}

fn raised(ename: &str, evalue: impl Into<String>) -> Stop {
    Stop::Raised(ename.to_owned(), evalue.into())
}

impl Interpreter {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            interrupts: shared.interrupts.subscribe(),
            shared,
            variables: BTreeMap::new(),
            execution_count: 0,
            displays: 0,
            written: ("stdout", String::new()),
            mute: (false, false),
            end: None,
        }
    }

    /// Runs a cell between its busy and its idle.
    pub(super) async fn execute(&mut self, request: &Request) -> Cell {
        let content = &request.asked.content;
        let code = content["code"].as_str().unwrap_or_default().to_owned();
        let header = request.asked.header.clone();
        // A signal that came while nothing ran is nobody's.
        self.interrupts.mark_unchanged();
        self.mute = (false, false);
        self.execution_count += u32::from(content["store_history"] != json!(false));
        let count = self.execution_count;
        self.shared.publish("execute_input", &header, &json!({ "code": code, "execution_count": count })).await;
        let result = self.run(&code, request).await;
        self.flush(request).await;
        let reply = match result {
            Ok(Some(value)) => {
                let content =
                    json!({ "data": { "text/plain": value.repr() }, "metadata": {}, "execution_count": count });
                self.shared.publish("execute_result", &header, &content).await;
                json!({ "status": "ok", "execution_count": count, "user_expressions": {}, "payload": [] })
            }
            Ok(None) => json!({ "status": "ok", "execution_count": count, "user_expressions": {}, "payload": [] }),
            Err(Stop::Ended) => return std::future::pending().await,
            Err(Stop::Raised(ename, evalue)) => {
                let traceback = [
                    format!("\u{1b}[31m{}\u{1b}[39m", "-".repeat(75)),
                    format!("\u{1b}[31m{ename}\u{1b}[39m: {evalue}"),
                ];
                let error = json!({ "ename": ename, "evalue": evalue, "traceback": traceback });
                self.shared.publish("error", &header, &error).await;
                let mut reply = error;
                reply["status"] = json!("error");
                reply["execution_count"] = json!(count);
                reply
            }
        };
        Cell { reply: (!self.mute.0).then_some(reply), goes_idle: !self.mute.1, end: self.end }
    }

    /// Answers any other request on shell; none for a type that is not known.
    pub(super) fn answer(&self, asked: &Asked) -> Option<Json> {
        let code = asked.content["code"].as_str().unwrap_or_default();
        match asked.msg_type.as_str() {
            "kernel_info_request" => Some(kernel_info()),
            "is_complete_request" => Some(if code.trim_end().ends_with(':') {
                json!({ "status": "incomplete", "indent": "    " })
            } else {
                json!({ "status": if python::parse(code).is_ok() { "complete" } else { "invalid" } })
            }),
            "complete_request" => {
                let cursor = asked.content["cursor_pos"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
                let before: Vec<char> = code.chars().take(cursor).collect();
                let word = before.iter().rev().take_while(|char| char.is_alphanumeric() || **char == '_').count();
                let start = before.len() - word;
                let word: String = before[start..].iter().collect();
                let matches: Vec<_> = self.variables.keys().filter(|name| name.starts_with(&word)).collect();
                Some(
                    json!({ "status": "ok", "matches": matches, "cursor_start": start, "cursor_end": cursor, "metadata": {} }),
                )
            }
            "inspect_request" => Some(json!({ "status": "ok", "found": false, "data": {}, "metadata": {} })),
            "history_request" => Some(json!({ "status": "ok", "history": [] })),
            "comm_info_request" => Some(json!({ "status": "ok", "comms": {} })),
            _ => None,
        }
    }

    /// The value of the last statement, if it is an expression with one.
    async fn run(&mut self, code: &str, request: &Request) -> Result<Option<Value>, Stop> {
        let statements = python::parse(code).map_err(|error| raised("SyntaxError", error))?;
        let mut last = Value::None;
        for statement in statements {
            last = self.statement(&statement, request).await?;
            if self.interrupts.has_changed().unwrap_or(false) {
                return Err(self.interrupted());
            }
        }
        Ok(Some(last).filter(|value| *value != Value::None))
    }

    fn statement<'a>(&'a mut self, statement: &'a Statement, request: &'a Request) -> Evaluated<'a> {
        Box::pin(async move {
            match statement {
                Statement::Nothing => {}
                Statement::Assign(name, expr) => {
                    let value = self.value(expr, request).await?;
                    self.variables.insert(name.clone(), value);
                }
                Statement::Expr(expr) => return self.value(expr, request).await,
                Statement::Raise(name, expr) => {
                    let text = self.value(expr, request).await?;
                    return Err(raised(name, text.to_string()));
                }
                Statement::For(name, count, body) => {
                    let Value::Int(count) = self.value(count, request).await? else {
                        return Err(raised("TypeError", "range() wants an int"));
                    };
                    for number in 0..count {
                        self.variables.insert(name.clone(), Value::Int(number));
                        self.statement(body, request).await?;
                        if self.interrupts.has_changed().unwrap_or(false) {
                            return Err(self.interrupted());
                        }
                    }
                }
                Statement::AwaitSleep(expr) => {
                    let duration = self.value(expr, request).await?.seconds();
                    self.flush(request).await;
                    self.await_sleep(duration).await?;
                }
                Statement::Loop { ignores_interrupts: true } => std::future::pending().await,
                Statement::Loop { ignores_interrupts: false } => {
                    self.flush(request).await;
                    or_interrupt(&mut self.interrupts, std::future::pending::<()>()).await;
                    return Err(self.interrupted());
                }
                Statement::Word(word, rest) => self.word(word, rest, request).await?,
            }
            Ok(Value::None)
        })
    }

    fn interrupted(&mut self) -> Stop {
        self.interrupts.mark_unchanged();
        raised("KeyboardInterrupt", "")
    }

    /// A top-level `await`: the event loop sees a signal only when something else wakes it.
    async fn await_sleep(&mut self, duration: std::time::Duration) -> Result<(), Stop> {
        let end = tokio::time::Instant::now() + duration;
        let mut wakes = self.shared.wakes.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                _ = wakes.changed() => {}
            }
            if self.interrupts.has_changed().unwrap_or(false) {
                return Err(self.interrupted());
            }
        }
    }

    fn value<'a>(&'a mut self, expr: &'a Expr, request: &'a Request) -> Evaluated<'a> {
        Box::pin(async move {
            match expr {
                Expr::Value(value) => Ok(value.clone()),
                Expr::Name(name) => self
                    .variables
                    .get(name)
                    .cloned()
                    .ok_or_else(|| raised("NameError", format!("name '{name}' is not defined"))),
                Expr::Dict(items) => {
                    let mut dict = Vec::new();
                    for (key, value) in items {
                        dict.push((self.value(key, request).await?.to_string(), self.value(value, request).await?));
                    }
                    Ok(Value::Dict(dict))
                }
                Expr::Operation(sign, left, right) => {
                    let (left, right) = (self.value(left, request).await?, self.value(right, request).await?);
                    operation(*sign, &left, &right)
                }
                Expr::Call(call) => self.call(call, request).await,
            }
        })
    }

    async fn call(&mut self, call: &Call, request: &Request) -> Result<Value, Stop> {
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.value(arg, request).await?);
        }
        let named = |name: &str| call.named.iter().find(|(key, _)| key == name).map(|(_, expr)| expr);
        let first = args.first().cloned().unwrap_or(Value::None);
        match call.name.as_str() {
            "print" => {
                let stream = match named("file") {
                    Some(Expr::Name(name)) if name == "sys.stderr" => "stderr",
                    _ => "stdout",
                };
                let end = match named("end") {
                    Some(Expr::Value(end)) => end.to_string(),
                    _ => "\n".to_owned(),
                };
                let text: Vec<_> = args.iter().map(Value::to_string).collect();
                self.write(stream, &(text.join(" ") + &end), request).await;
                if named("flush").is_some() {
                    self.flush(request).await;
                }
            }
            "str" => return Ok(Value::Str(first.to_string())),
            "time.sleep" => {
                self.flush(request).await;
                let sleep = tokio::time::sleep(first.seconds());
                if or_interrupt(&mut self.interrupts, sleep).await.is_none() {
                    return Err(self.interrupted());
                }
            }
            "input" | "getpass.getpass" => return self.input(&first.to_string(), call.name != "input", request).await,
            "os._exit" => {
                let Value::Int(code) = first else { return Err(raised("TypeError", "an int is due")) };
                self.shared.end(End::Code(i32::try_from(code).unwrap_or(255)));
                return Err(Stop::Ended);
            }
            "os.abort" => {
                self.shared.end(End::Signal(6));
                return Err(Stop::Ended);
            }
            "display" | "update_display" => {
                let id = match named("display_id") {
                    Some(Expr::Value(Value::Str(id))) => Some(id.clone()),
                    _ => None,
                };
                self.display(&first, id, call.name == "update_display", request).await;
            }
            "clear_output" => {
                self.flush(request).await;
                let wait = named("wait").is_some();
                self.shared.publish("clear_output", &request.asked.header, &json!({ "wait": wait })).await;
            }
            name => return Err(raised("NameError", format!("name '{name}' is not defined"))),
        }
        Ok(Value::None)
    }

    async fn input(&mut self, prompt: &str, password: bool, request: &Request) -> Result<Value, Stop> {
        if request.asked.content["allow_stdin"] != json!(true) {
            let text = "raw_input was called, but this frontend does not support input requests.";
            return Err(raised("StdinNotImplementedError", text));
        }
        self.flush(request).await;
        let line = self.shared.ask_input(request, prompt, password).await;
        match or_interrupt(&mut self.interrupts, line).await {
            None => Err(self.interrupted()),
            Some(Ok(line)) if line == "\x04" => Err(raised("EOFError", "")),
            Some(Ok(line)) => Ok(Value::Str(line)),
            Some(Err(_)) => std::future::pending().await,
        }
    }

    async fn display(&mut self, value: &Value, id: Option<String>, update: bool, request: &Request) {
        self.flush(request).await;
        self.displays += 1;
        let data: Map<String, Json> = match value {
            Value::Dict(items) => items.iter().map(|(mime, data)| (mime.clone(), json!(data.to_string()))).collect(),
            other => Map::from_iter([("text/plain".to_owned(), json!(other.repr()))]),
        };
        let transient = id.map_or(json!({}), |id| json!({ "display_id": id }));
        let msg_type = if update { "update_display_data" } else { "display_data" };
        let content = json!({ "data": data, "metadata": {}, "transient": transient });
        self.shared.publish(msg_type, &request.asked.header, &content).await;
    }

    async fn write(&mut self, stream: &'static str, text: &str, request: &Request) {
        if self.written.0 != stream {
            self.flush(request).await;
            self.written.0 = stream;
        }
        self.written.1.push_str(text);
        if self.written.1.len() >= STREAM_CHUNK {
            self.flush(request).await;
        }
    }

    async fn flush(&mut self, request: &Request) {
        let (stream, text) = (self.written.0, std::mem::take(&mut self.written.1));
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(rest.floor_char_boundary(STREAM_CHUNK));
            self.shared.publish("stream", &request.asked.header, &json!({ "name": stream, "text": piece })).await;
            rest = tail;
        }
    }

    /// What Python cannot be asked to do.
    async fn word(&mut self, word: &str, rest: &str, request: &Request) -> Result<(), Stop> {
        self.flush(request).await;
        match word {
            // The reply, or the idle status, never comes.
            "noreply" => self.mute.0 = true,
            "noidle" => self.mute.1 = true,
            // The process ends as soon as the cell has.
            "end" => self.end = Some(End::Code(rest.parse().unwrap_or(0))),
            // Killed by the memory limit.
            "oom" => {
                self.shared.end(End::OutOfMemory);
                return Err(Stop::Ended);
            }
            // C code that holds the GIL: signals wait, and so does the control thread.
            "gil" => {
                self.shared.gil_held.send_replace(true);
                tokio::time::sleep(std::time::Duration::from_secs_f64(rest.parse().unwrap_or(1.0))).await;
                self.shared.gil_held.send_replace(false);
            }
            // One stream message of so many bytes, as a stock ipykernel makes of one print.
            "flood" => {
                let text = "x".repeat(rest.parse().unwrap_or(0));
                let content = json!({ "name": "stdout", "text": text });
                self.shared.publish("stream", &request.asked.header, &content).await;
            }
            "hostile" => hostile::act(rest, &self.shared, request).await,
            _ => return Err(raised("SyntaxError", format!("the fake kernel has no word %{word}"))),
        }
        Ok(())
    }
}

fn operation(sign: char, left: &Value, right: &Value) -> Result<Value, Stop> {
    let float = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match (sign, left, right) {
        ('=', left, right) => return Ok(Value::Bool(left == right)),
        ('+', Value::Int(a), Value::Int(b)) => return Ok(Value::Int(a.wrapping_add(*b))),
        ('-', Value::Int(a), Value::Int(b)) => return Ok(Value::Int(a.wrapping_sub(*b))),
        ('*', Value::Int(a), Value::Int(b)) => return Ok(Value::Int(a.wrapping_mul(*b))),
        ('+', Value::Str(a), Value::Str(b)) => return Ok(Value::Str(format!("{a}{b}"))),
        ('*', Value::Str(text), Value::Int(count)) | ('*', Value::Int(count), Value::Str(text)) => {
            return Ok(Value::Str(text.repeat(usize::try_from(*count).unwrap_or(0))));
        }
        _ => {}
    }
    let (Some(a), Some(b)) = (float(left), float(right)) else {
        return Err(raised("TypeError", format!("unsupported operand types for {sign}")));
    };
    match sign {
        '/' if b == 0.0 => Err(raised("ZeroDivisionError", "division by zero")),
        '/' => Ok(Value::Float(a / b)),
        '*' => Ok(Value::Float(a * b)),
        '-' => Ok(Value::Float(a - b)),
        _ => Ok(Value::Float(a + b)),
    }
}
