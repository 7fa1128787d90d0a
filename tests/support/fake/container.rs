//! A fake container: its PID 1, which is the bridge, and the kernel under it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellblock::ContainerSpec;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use super::hostile::Greeting;
use super::kernel::{End, Kernel};

/// A container's state, as `docker ps` would show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Created,
    Running,
    Exited(Option<i64>),
}

/// One container.
pub(crate) struct Container {
    pub(crate) spec: ContainerSpec,
    /// Jupyter's session id, which the bridge keeps.
    session: String,
    status: watch::Sender<Status>,
    greeting: Mutex<Greeting>,
    bridge: Mutex<Bridge>,
    interrupts: AtomicU64,
    violations: Mutex<Vec<String>>,
    forged_files: Mutex<Vec<u8>>,
    lost_starts: Mutex<VecDeque<bool>>,
    deadlines: Mutex<Vec<Duration>>,
    losses: watch::Sender<u64>,
}

/// What PID 1 knows.
#[derive(Default)]
struct Bridge {
    generation: u64,
    kernel: Option<Kernel>,
    key: String,
    reported: u64,
    last_exit: Option<Value>,
    controller: Option<(u64, mpsc::UnboundedSender<Value>)>,
    /// Counts controllers that came and went.
    changes: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Container {
    pub(crate) fn new(spec: ContainerSpec, greeting: Greeting) -> Arc<Self> {
        Arc::new(Self {
            spec,
            session: Uuid::new_v4().simple().to_string(),
            status: watch::Sender::new(Status::Created),
            greeting: Mutex::new(greeting),
            bridge: Mutex::default(),
            interrupts: AtomicU64::new(0),
            violations: Mutex::default(),
            forged_files: Mutex::default(),
            lost_starts: Mutex::default(),
            deadlines: Mutex::default(),
            losses: watch::Sender::default(),
        })
    }

    pub(crate) fn status(&self) -> Status {
        *self.status.borrow()
    }

    /// How many SIGINTs the bridge was asked to send.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::SeqCst)
    }

    /// What the host did against the bridge's protocol.
    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    pub(super) fn violated(&self, what: impl Into<String>) {
        lock(&self.violations).push(what.into());
    }

    /// How the sockets of the next kernels greet.
    pub(crate) fn set_greeting(&self, greeting: Greeting) {
        *lock(&self.greeting) = greeting;
    }

    /// The link is lost at the next requests to start a kernel: before each is heard, or, where it says so, when it has been carried out.
    pub(crate) fn lose_at_starts(&self, carried_out: &[bool]) {
        lock(&self.lost_starts).extend(carried_out);
    }

    /// How many of these are still to come.
    pub(crate) fn starts_to_lose(&self) -> usize {
        lock(&self.lost_starts).len()
    }

    /// The link is lost now.
    pub(crate) fn lose_link(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// Waits until the link is lost, from the first poll on.
    pub(super) async fn link_lost(&self) {
        let _ = self.losses.subscribe().changed().await;
    }

    /// The deadlines of which the host has told.
    pub(crate) fn deadlines(&self) -> Vec<Duration> {
        lock(&self.deadlines).clone()
    }

    /// What `bridge files` says from now on, whatever it is asked.
    pub(crate) fn forge_files(&self, bytes: Vec<u8>) {
        *lock(&self.forged_files) = bytes;
    }

    /// `bridge files` of a container that was taken over: it says its lines, and listens no further than to the first word.
    pub(super) async fn files(&self, mut stdin: DuplexStream, mut stdout: DuplexStream) -> i64 {
        let bytes = lock(&self.forged_files).clone();
        let _ = stdin.read_u8().await;
        let _ = stdout.write_all(&bytes).await;
        0
    }

    /// The running kernel.
    pub(crate) fn kernel(&self) -> Option<Kernel> {
        lock(&self.bridge).kernel.clone()
    }

    pub(super) fn start(self: &Arc<Self>) {
        self.status.send_replace(Status::Running);
        let container = Arc::clone(self);
        let life = self.seconds("--max-life", 86400.0);
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(life) => container.exit(Some(12)),
                _ = container.exited() => {}
            }
        });
    }

    /// Ends every process in it.
    pub(crate) fn exit(&self, code: Option<i64>) {
        self.status.send_if_modified(|status| {
            let runs = !matches!(status, Status::Exited(_));
            if runs {
                *status = Status::Exited(code);
            }
            runs
        });
        if let Some(kernel) = self.kernel() {
            kernel.end(End::Signal(9));
        }
    }

    pub(crate) async fn exited(&self) -> Option<i64> {
        let mut status = self.status.subscribe();
        match status.wait_for(|status| matches!(status, Status::Exited(_))).await.as_deref() {
            Ok(Status::Exited(code)) => *code,
            _ => None,
        }
    }

    /// An argument of `bridge init`.
    fn argument(&self, name: &str) -> Option<&str> {
        let at = self.spec.args.iter().position(|arg| arg == name)?;
        self.spec.args.get(at + 1).map(String::as_str)
    }

    fn seconds(&self, name: &str, default: f64) -> Duration {
        Duration::from_secs_f64(self.argument(name).and_then(|text| text.parse().ok()).unwrap_or(default))
    }

    fn lease(&self) -> &str {
        self.argument("--lease").unwrap_or("owned")
    }

    /// Answers one control message, and says whether the connection is to be closed after it.
    pub(super) async fn control(
        self: &Arc<Self>,
        connection: u64,
        events: &mpsc::UnboundedSender<Value>,
        message: &Value,
    ) -> bool {
        let kind = message["type"].as_str().unwrap_or_default();
        if message["id"].is_null() {
            if kind == "deadline" {
                let ms = message["ms"].as_u64().expect("a number of milliseconds");
                lock(&self.deadlines).push(Duration::from_millis(ms));
            }
            if !matches!(kind, "ping" | "deadline" | "done") {
                self.violated(format!("the host sent a {kind} without an id"));
            }
            return false;
        }
        let lost = if kind == "start" { lock(&self.lost_starts).pop_front() } else { None };
        if let Some(carried_out) = lost {
            if carried_out {
                self.start_kernel().await;
            }
            return true;
        }
        let held = lock(&self.bridge).controller.as_ref().map(|(holder, _)| *holder);
        let answer = match kind {
            "hello" if held.is_some_and(|holder| holder != connection) => {
                Err(("held", "another controller holds the session"))
            }
            "hello" => Ok(self.hello(connection, events)),
            _ if held != Some(connection) => Err(("hello", "the first request is hello")),
            "start" => Ok(self.start_kernel().await),
            "interrupt" => {
                self.interrupts.fetch_add(1, Ordering::SeqCst);
                let bridge = lock(&self.bridge);
                if let Some(kernel) =
                    bridge.kernel.as_ref().filter(|_| message["generation"] == json!(bridge.generation))
                {
                    kernel.interrupt();
                }
                Ok(json!({}))
            }
            "ping" | "shutdown" => Ok(json!({})),
            _ => Err(("unknown", "there is no such request")),
        };
        let mut reply = json!({ "type": "reply", "id": message["id"], "ok": answer.is_ok() });
        let closes = kind == "shutdown" || matches!(answer, Err(("held", _)));
        match answer {
            Ok(Value::Object(fields)) => reply.as_object_mut().expect("an object").extend(fields),
            Ok(_) => {}
            Err((code, error)) => {
                reply["code"] = json!(code);
                reply["error"] = json!(error);
            }
        }
        let _ = events.send(reply);
        closes
    }

    fn hello(&self, connection: u64, events: &mpsc::UnboundedSender<Value>) -> Value {
        let mut bridge = lock(&self.bridge);
        bridge.controller = Some((connection, events.clone()));
        bridge.changes += 1;
        let kernel = bridge
            .kernel
            .as_ref()
            .map(|kernel| json!({ "generation": bridge.generation, "key": bridge.key, "busy": kernel.is_busy() }));
        json!({ "v": 1, "session": self.session, "lease": self.lease(), "kernel": kernel, "last_exit": bridge.last_exit })
    }

    async fn start_kernel(self: &Arc<Self>) -> Value {
        let (before, generation) = {
            let bridge = lock(&self.bridge);
            (bridge.kernel.clone(), bridge.generation)
        };
        if let Some(kernel) = before {
            kernel.end(End::Signal(9));
            let end = kernel.ended().await;
            self.report(generation, end);
        }
        let key = Uuid::new_v4().to_string();
        let kernel = Kernel::start(&key, *lock(&self.greeting));
        let generation = generation + 1;
        {
            let mut bridge = lock(&self.bridge);
            bridge.generation = generation;
            bridge.kernel = Some(kernel.clone());
            bridge.key = key.clone();
        }
        let container = Arc::clone(self);
        tokio::spawn(async move {
            let end = kernel.ended().await;
            container.report(generation, end);
        });
        json!({ "generation": generation, "key": key })
    }

    /// Tells the controller of a kernel's end, once.
    fn report(&self, generation: u64, end: End) {
        let mut bridge = lock(&self.bridge);
        if bridge.reported >= generation {
            return;
        }
        bridge.reported = generation;
        let (code, signal, oom) = match end {
            End::Code(code) => (Some(code), None, false),
            End::Signal(signal) => (None, Some(signal), false),
            End::OutOfMemory => (None, Some(9), true),
        };
        let event = json!({ "type": "exit", "generation": generation, "code": code, "signal": signal, "oom": oom });
        bridge.last_exit = Some(event.clone());
        if bridge.generation == generation {
            bridge.kernel = None;
        }
        if let Some((_, controller)) = &bridge.controller {
            let _ = controller.send(event);
        }
    }

    /// A control connection has ended. Without another the container ends in time, as its lease says.
    pub(super) fn disconnected(self: &Arc<Self>, connection: u64) {
        let changes = {
            let mut bridge = lock(&self.bridge);
            if bridge.controller.as_ref().is_none_or(|(holder, _)| *holder != connection) {
                return;
            }
            bridge.controller = None;
            bridge.changes += 1;
            bridge.changes
        };
        let (wait, code) = match self.lease() {
            "owned" => (self.seconds("--orphan-grace", 10.0), 10),
            _ => (self.seconds("--idle", 3600.0), 11),
        };
        let container = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            if lock(&container.bridge).changes == changes {
                container.exit(Some(code));
            }
        });
    }
}
