//! From flags to a session, and its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cellblock::{Docker, Engine, Session};
use tokio::time::timeout;

use super::args::Place;
use super::interrupts::Interrupts;
use super::printer::{Printer, Usage};

/// How long the end of the command waits for the container's removal; the container's own lease does the rest.
const REMOVAL: Duration = Duration::from_secs(10);

/// A session that this command uses.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: Session,
    /// It was made for this command and ends with it.
    pub(crate) owned: bool,
}

impl Opened {
    /// Starts a container, or takes hold of a session that is there; none if Ctrl-C came first.
    pub(crate) async fn open(place: &Place, interrupts: &mut Interrupts) -> Result<Option<Self>> {
        let open = async {
            if let Some(name) = &place.session {
                if let [flag, ..] = *place.container.given() {
                    let message =
                        format!("`{flag}` shapes a new container, and the session `{name}` has its container already");
                    return Err(Usage(message).into());
                }
                return Ok(Self { session: Session::attach(name).engine(connect().await?).await?, owned: false });
            }
            // Before anything is connected to, as all that is wrong with the command line.
            let builder = place.container.builder()?;
            anyhow::Ok(Self { session: builder.engine(connect().await?).start().await?, owned: true })
        };
        tokio::select! {
            opened = Box::pin(open) => opened.map(Some),
            () = interrupts.next() => Ok(None),
        }
    }

    /// Ends an owned session and lets go of another. Ctrl-C leaves the end to the container.
    pub(crate) async fn close(self, interrupts: &mut Interrupts, printer: &mut Printer) {
        tokio::select! {
            ended = timeout(REMOVAL, self.session.detach()) => match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.is_session_gone() => {}
                Ok(Err(error)) => printer.error(&error.into()),
                Err(_) => printer.note("the container is slow to go: it ends by itself"),
            },
            () = interrupts.next() => {}
        }
    }
}

/// The engine that sessions live on.
pub(crate) async fn connect() -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Docker::connect().await?))
}
