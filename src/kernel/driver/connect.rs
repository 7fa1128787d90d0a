//! The driver's beginning: a kernel that is started, or one that is taken over with the cell that an earlier controller left.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;

use super::loss::death;
use super::{Driver, Settings};
use crate::error::{Error, Kind};
use crate::execution::{Rung, State, Status};
use crate::kernel::command::Command;
use crate::kernel::connection::Connection;
use crate::kernel::container::Container;
use crate::kernel::recovery::{Recovered, recover};
use crate::transport::{Bridge, CellReport, Hello};

impl<C: Container> Driver<C> {
    /// Starts the kernel, or connects to the one that runs, and waits until it is ready. Also gives the result
    /// of the cell that an earlier controller left, if there is one. On failure the container is given back.
    pub(crate) async fn connect(
        settings: Settings,
        container: C,
        (mut bridge, hello): (Bridge, Hello),
        commands: mpsc::Receiver<Command>,
        ended: Arc<OnceLock<String>>,
    ) -> Result<(Self, Option<Recovered>), Box<(C, Error)>> {
        let mut before = hello.last_exit.map_or(0, |exit| exit.generation);
        let mut found = None;
        if let Some(kernel) = &hello.kernel {
            before = kernel.generation;
            // One that the bridge had to fork by itself has no sockets of the host: it is replaced, and nothing is in it.
            let opened = Connection::open(&mut bridge, kernel, &settings.session, &settings.private, settings.ready);
            found = opened.await.inspect_err(|error| tracing::debug!(%error, "the kernel is replaced")).ok();
        }
        // Nobody was there to be told that the kernel ended.
        let restarted = hello.cell.as_ref().is_some_and(|cell| cell.kernel_was_restarted() && !cell.delivered);
        let lost_between = restarted || (before > 0 && found.is_none());
        let connection = match found {
            Some(connection) => connection,
            None => match open(&mut bridge, before, &settings).await {
                Ok(connection) => connection,
                Err(error) => return Err(Box::new((container, error))),
            },
        };
        let mut driver = Self {
            settings,
            container,
            bridge,
            connection,
            commands,
            ended,
            queue: VecDeque::new(),
            running: None,
            interrupt: None,
            interrupt_next: Vec::new(),
            asked: HashMap::new(),
            lost_between,
            recovered_says_so: false,
            broken: None,
            closed: Vec::new(),
            recovered: None,
        };
        let recovered = match &hello.cell {
            Some(cell) if !cell.delivered => driver.recover(cell).await,
            _ => None,
        };
        Ok((driver, recovered))
    }

    /// Takes over the cell that an earlier controller left.
    async fn recover(&mut self, report: &CellReport) -> Option<Recovered> {
        let (running, recovered) = recover(&mut self.bridge, report, &self.settings).await?;
        self.recovered = Some(running.id.clone());
        let usage = self.container.usage();
        self.recovered_says_so = report.kernel_was_restarted() || report.exit.is_some();
        if report.kernel_was_restarted() {
            running.finish(Some(Status::TimedOut), State::KernelRestarted, Some(Rung::KernelRestart), usage);
        } else if let Some(exit) = report.exit {
            running.finish(Some(Status::KernelDied(death(exit))), State::KernelRestarted, None, usage);
        } else {
            let complete = running.is_complete();
            self.running = Some(running);
            if complete {
                self.complete();
            }
        }
        Some(recovered)
    }
}

/// Starts a kernel after generation `before` and connects to it.
pub(super) async fn open(bridge: &mut Bridge, before: u64, settings: &Settings) -> Result<Connection, Error> {
    let failed = || Error::new(Kind::Start, "cannot start the kernel");
    let launched = bridge.start(before, settings.ready).await.map_err(|error| failed().with_source(error))?;
    Connection::open(bridge, &launched, &settings.session, &settings.private, settings.ready)
        .await
        .map_err(|error| failed().with_source(error))
}
