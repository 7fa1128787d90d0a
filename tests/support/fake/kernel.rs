//! A kernel process: its sockets, the thread that runs cells, the one that serves control, and its end.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot, watch};

use super::hostile::{Greeting, RelayFault};
use super::interpreter::Interpreter;
use super::wire::{Asked, Wire};
use super::zmtp;

/// How many messages a socket holds; a sender waits for room, as with `XPUB_NODROP`.
const HIGH_WATER: usize = 16;

/// How a kernel process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
    OutOfMemory,
}

/// A request on shell, with the way back.
pub(super) struct Request {
    pub(super) asked: Asked,
    pub(super) identity: Vec<u8>,
    pub(super) reply: mpsc::Sender<Vec<u8>>,
}

/// A kernel process, cheap to clone.
#[derive(Clone)]
pub(crate) struct Kernel(Arc<Shared>);

pub(super) struct Shared {
    pub(super) wire: Wire,
    greeting: Greeting,
    requests: mpsc::UnboundedSender<Request>,
    /// Counts the requests that came on shell: what wakes the event loop.
    pub(super) wakes: watch::Sender<u64>,
    /// Counts SIGINTs.
    pub(super) interrupts: watch::Sender<u64>,
    /// While true, no other thread of the process runs.
    pub(super) gil_held: watch::Sender<bool>,
    /// What somebody in the container does to the relay.
    pub(super) relay_faults: watch::Sender<Option<RelayFault>>,
    /// The channel that is closed.
    pub(super) closed: watch::Sender<String>,
    busy: AtomicBool,
    end: watch::Sender<Option<End>>,
    routes: Mutex<Routes>,
}

#[derive(Default)]
struct Routes {
    subscribers: Vec<mpsc::Sender<Vec<u8>>>,
    welcomed: bool,
    stdin: HashMap<Vec<u8>, mpsc::Sender<Vec<u8>>>,
    input: Option<oneshot::Sender<String>>,
}

impl Kernel {
    /// Starts the process.
    pub(crate) fn start(key: &str, greeting: Greeting) -> Self {
        let (requests, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            wire: Wire::new(key),
            greeting,
            requests,
            wakes: watch::Sender::new(0),
            interrupts: watch::Sender::new(0),
            gil_held: watch::Sender::new(false),
            relay_faults: watch::Sender::new(None),
            closed: watch::Sender::default(),
            busy: AtomicBool::new(false),
            end: watch::Sender::new(None),
            routes: Mutex::default(),
        });
        let main = Arc::clone(&shared);
        tokio::spawn(async move {
            tokio::select! {
                () = run_requests(&main, queue) => {}
                _ = main.ended() => {}
            }
        });
        Self(shared)
    }

    /// SIGINT.
    pub(crate) fn interrupt(&self) {
        self.0.interrupts.send_modify(|count| *count += 1);
    }

    /// Ends the process, unless it has ended.
    pub(crate) fn end(&self, end: End) {
        self.0.end(end);
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> End {
        self.0.ended().await
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::SeqCst)
    }

    pub(super) fn relay_faults(&self) -> watch::Receiver<Option<RelayFault>> {
        self.0.relay_faults.subscribe()
    }

    /// Serves one connection to one of the sockets, until either side ends.
    pub(super) async fn serve(self, channel: String, stream: DuplexStream) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let socket_type = match channel.as_str() {
            "iopub" => "XPUB",
            "hb" => "REP",
            _ => "ROUTER",
        };
        let opened = async {
            self.0.greeting.write(&mut writer).await?;
            let identity = zmtp::accept(&mut reader).await?;
            writer.write_all(&zmtp::ready(socket_type)).await?;
            std::io::Result::Ok(identity)
        };
        let identity = tokio::select! {
            opened = opened => match opened {
                Ok(identity) => identity,
                Err(_) => return,
            },
            _ = self.0.ended() => return,
        };
        let (sender, queue) = mpsc::channel(HIGH_WATER);
        let writing = tokio::spawn(zmtp::write_queue(writer, queue));
        if channel == "stdin" {
            self.0.routes().stdin.insert(identity.clone(), sender.clone());
        }
        let reading = async {
            while let Ok(frames) = zmtp::read_message(&mut reader).await {
                self.0.take(&channel, &identity, &sender, frames).await;
            }
        };
        let mut closed = self.0.closed.subscribe();
        let closing = async { drop(closed.wait_for(|closed| *closed == channel).await) };
        let ended = tokio::select! {
            () = reading => None,
            () = closing => None,
            end = self.0.ended() => Some(end),
        };
        self.0.forget(&sender);
        drop(sender);
        if matches!(ended, Some(End::Signal(_) | End::OutOfMemory)) {
            writing.abort();
        }
        // A process that exits by itself lingers until what it sent is out.
        let _ = writing.await;
    }
}

impl Shared {
    pub(super) fn end(&self, end: End) {
        self.end.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(end);
            first
        });
    }

    async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        end.unwrap_or(End::Signal(9))
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, sender: &mpsc::Sender<Vec<u8>>) {
        let mut routes = self.routes();
        routes.subscribers.retain(|subscriber| !subscriber.same_channel(sender));
        routes.stdin.retain(|_, route| !route.same_channel(sender));
    }

    async fn take(&self, channel: &str, identity: &[u8], reply: &mpsc::Sender<Vec<u8>>, frames: Vec<Vec<u8>>) {
        match channel {
            "hb" => drop(reply.send(zmtp::message(&frames)).await),
            "iopub" => self.subscribe(&frames, reply).await,
            _ => {
                let Some(asked) = self.wire.read(&frames) else { return };
                match channel {
                    "stdin" => self.take_input(&asked),
                    "control" => self.control(&asked, reply).await,
                    _ => {
                        self.wakes.send_modify(|count| *count += 1);
                        let _ =
                            self.requests.send(Request { asked, identity: identity.to_vec(), reply: reply.clone() });
                    }
                }
            }
        }
    }

    async fn subscribe(&self, frames: &[Vec<u8>], subscriber: &mpsc::Sender<Vec<u8>>) {
        let [frame] = frames else { return };
        let Some(topic) = frame.strip_prefix(&[1]) else { return };
        let first = {
            let mut routes = self.routes();
            routes.subscribers.push(subscriber.clone());
            !std::mem::replace(&mut routes.welcomed, true)
        };
        // XPUB tells the kernel only of the first subscriber to a topic.
        if first {
            let subscription = String::from_utf8_lossy(topic);
            let welcome = self.wire.message("iopub_welcome", b"", &json!({ "subscription": subscription }));
            let _ = subscriber.send(zmtp::message(&welcome)).await;
        }
    }

    /// Sends bytes to every subscriber, as they are.
    pub(super) async fn publish_raw(&self, bytes: &[u8]) {
        let subscribers = self.routes().subscribers.clone();
        for subscriber in subscribers {
            let _ = subscriber.send(bytes.to_vec()).await;
        }
    }

    pub(super) async fn publish(&self, msg_type: &str, parent: &[u8], content: &Value) {
        let mut frames = vec![format!("kernel.fake.{msg_type}").into_bytes()];
        frames.extend(self.wire.message(msg_type, parent, content));
        self.publish_raw(&zmtp::message(&frames)).await;
    }

    pub(super) async fn publish_status(&self, parent: &[u8], state: &str) {
        self.publish("status", parent, &json!({ "execution_state": state })).await;
    }

    async fn reply(&self, to: &mpsc::Sender<Vec<u8>>, asked: &Asked, content: &Value) {
        let msg_type = asked.msg_type.replace("_request", "_reply");
        let _ = to.send(zmtp::message(&self.wire.message(&msg_type, &asked.header, content))).await;
    }

    async fn control(&self, asked: &Asked, reply: &mpsc::Sender<Vec<u8>>) {
        let _ = self.gil_held.subscribe().wait_for(|held| !held).await;
        self.publish_status(&asked.header, "busy").await;
        match asked.msg_type.as_str() {
            "kernel_info_request" => self.reply(reply, asked, &kernel_info()).await,
            "interrupt_request" => {
                self.interrupts.send_modify(|count| *count += 1);
                self.reply(reply, asked, &json!({ "status": "ok" })).await;
            }
            "shutdown_request" => {
                let content = json!({ "status": "ok", "restart": asked.content["restart"] });
                self.reply(reply, asked, &content).await;
                self.publish("shutdown_reply", &asked.header, &content).await;
                self.publish_status(&asked.header, "idle").await;
                self.end(End::Code(0));
            }
            _ => {}
        }
        self.publish_status(&asked.header, "idle").await;
    }

    fn take_input(&self, asked: &Asked) {
        if asked.msg_type == "input_reply"
            && let Some(input) = self.routes().input.take()
        {
            let _ = input.send(asked.content["value"].as_str().unwrap_or_default().to_owned());
        }
    }

    /// Asks the host that sent a cell for a line. A host whose stdin has another identity than its shell never hears of it.
    pub(super) async fn ask_input(&self, request: &Request, prompt: &str, password: bool) -> oneshot::Receiver<String> {
        let (sender, line) = oneshot::channel();
        let route = {
            let mut routes = self.routes();
            routes.input = Some(sender);
            routes.stdin.get(&request.identity).cloned()
        };
        if let Some(route) = route {
            let content = json!({ "prompt": prompt, "password": password });
            let frames = self.wire.message("input_request", &request.asked.header, &content);
            let _ = route.send(zmtp::message(&frames)).await;
        }
        line
    }
}

/// The main thread.
async fn run_requests(shared: &Arc<Shared>, mut queue: mpsc::UnboundedReceiver<Request>) {
    let mut interpreter = Interpreter::new(Arc::clone(shared));
    shared.publish_status(b"", "starting").await;
    while let Some(request) = queue.recv().await {
        let Request { asked, reply, .. } = &request;
        shared.publish_status(&asked.header, "busy").await;
        if asked.msg_type == "execute_request" {
            shared.busy.store(true, Ordering::SeqCst);
            let cell = interpreter.execute(&request).await;
            shared.busy.store(false, Ordering::SeqCst);
            if let Some(content) = cell.reply {
                shared.reply(reply, asked, &content).await;
            }
            if !cell.goes_idle {
                continue;
            }
            if let Some(end) = cell.end {
                shared.publish_status(&asked.header, "idle").await;
                shared.end(end);
                return;
            }
        } else if let Some(content) = interpreter.answer(asked) {
            shared.reply(reply, asked, &content).await;
        }
        shared.publish_status(&asked.header, "idle").await;
    }
}

/// The content of `kernel_info_reply`. The version is as wrong as ipykernel's.
pub(super) fn kernel_info() -> Value {
    json!({
        "status": "ok",
        "protocol_version": "5.3",
        "implementation": "fake",
        "implementation_version": "1",
        "banner": "a fake kernel",
        "language_info": { "name": "python", "version": "3.13.0", "mimetype": "text/x-python", "file_extension": ".py" },
        "supported_features": ["kernel subshells"],
    })
}

/// Waits for a future that may never come, unless the process is interrupted first.
pub(super) async fn or_interrupt<T>(interrupts: &mut watch::Receiver<u64>, wait: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = interrupts.changed() => None,
        value = wait => Some(value),
    }
}
