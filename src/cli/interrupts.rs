//! Ctrl-C.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::exit::Exit;

/// The presses of Ctrl-C, one by one. While it lives they no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Interrupts {
    presses: mpsc::UnboundedReceiver<()>,
    waiting: Arc<AtomicUsize>,
}

/// What to do when a press finds the previous one still unanswered, as it is while stdout blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenStuck {
    Leave,
    Wait,
}

impl Interrupts {
    pub(crate) fn listen(when_stuck: WhenStuck) -> Result<Self> {
        let mut signals = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let (sender, presses) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let unanswered = Arc::clone(&waiting);
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                let stuck = unanswered.fetch_add(1, Ordering::Relaxed) > 0;
                if stuck && when_stuck == WhenStuck::Leave {
                    process::exit(Exit::Interrupted.code().into());
                }
                let _ = sender.send(());
            }
        });
        Ok(Self { presses, waiting })
    }

    /// Waits for the next press. Cancel safe.
    pub(crate) async fn next(&mut self) {
        match self.presses.recv().await {
            Some(()) => self.waiting.fetch_sub(1, Ordering::Relaxed),
            // The listener never ends; with it gone there is nothing to wait for.
            None => std::future::pending().await,
        };
    }

    /// Forgets presses that nobody waited for.
    pub(crate) fn forget(&mut self) {
        while self.presses.try_recv().is_ok() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
