//! Events on their way from the driver to whoever follows an execution.
//!
//! The driver never waits for a consumer, so a slow one loses events: a queue has a budget of bytes, and what does not
//! fit is replaced, in its place, by a count. [`Event::Done`] always goes through.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use super::event::Event;

/// Consecutive text of a stream is put together up to this size while it waits.
const TEXT: usize = 64 << 10;

/// A queue that holds up to `budget` bytes of events, or a single larger one.
pub(crate) fn channel(budget: usize) -> (EventSender, EventReceiver) {
    let shared = Arc::new(Shared { budget, queue: Mutex::default() });
    (EventSender(Arc::clone(&shared)), EventReceiver(shared))
}

/// The driver's end; dropping it ends the stream of events.
#[derive(Debug)]
pub(crate) struct EventSender(Arc<Shared>);

/// The consumer's end.
#[derive(Debug)]
pub(crate) struct EventReceiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<(usize, Event)>,
    bytes: usize,
    receiver: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSender {
    /// Queues the event, or counts it as left out.
    pub(crate) fn send(&self, event: Event) {
        let mut queue = self.0.queue();
        if queue.receiver_gone {
            return;
        }
        queue.push(event, self.0.budget);
        let receiver = queue.receiver.take();
        drop(queue);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.sender_gone = true;
        let receiver = queue.receiver.take();
        drop(queue);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }
}

impl Queue {
    fn push(&mut self, event: Event, budget: usize) {
        let cost = event.cost();
        let fits = self.bytes == 0 || self.bytes.saturating_add(cost) <= budget;
        match (self.events.back_mut(), event) {
            (_, event @ Event::Done(_)) => self.events.push_back((0, event)),
            (Some((_, Event::Lagged { events })), _) if !fits => *events += 1,
            (_, _) if !fits => self.events.push_back((0, Event::Lagged { events: 1 })),
            (Some((spent, Event::Stdout(text))), Event::Stdout(more))
            | (Some((spent, Event::Stderr(text))), Event::Stderr(more))
                if text.len() + more.len() <= TEXT =>
            {
                text.push_str(&more);
                *spent += more.len();
                self.bytes += more.len();
            }
            (_, event) => {
                self.bytes += cost;
                self.events.push_back((cost, event));
            }
        }
    }
}

impl EventReceiver {
    /// The next event; none after the last one.
    pub(crate) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut queue = self.0.queue();
        if let Some((cost, event)) = queue.events.pop_front() {
            queue.bytes -= cost;
            return Poll::Ready(Some(event));
        }
        if queue.sender_gone {
            return Poll::Ready(None);
        }
        match &mut queue.receiver {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Stream for EventReceiver {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_recv(context)
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.receiver_gone = true;
        queue.bytes = 0;
        let events = std::mem::take(&mut queue.events);
        drop(queue);
        drop(events);
    }
}

#[cfg(test)]
mod tests;
