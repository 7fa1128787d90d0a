//! What the line editor asks the kernel while somebody types. The editor's waits are short; a late answer is still of use.

use std::time::Duration;

use cellblock::{Completeness, Completion, Session};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

const COMPLETENESS: Duration = Duration::from_millis(300);
const COMPLETION: Duration = Duration::from_secs(10);

/// Asks from the editor's thread, which is none of the runtime's.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    session: Session,
    runtime: Handle,
}

impl Kernel {
    pub(super) fn new(session: Session) -> Self {
        Self { session, runtime: Handle::current() }
    }

    /// None if the kernel did not answer in time.
    pub(super) fn is_complete(&self, code: &str) -> Option<Completeness> {
        let asked = async { timeout(COMPLETENESS, self.session.is_complete(code)).await.ok()?.ok() };
        self.runtime.block_on(asked)
    }

    /// Asks for the completions at the end of `code`; no answer is the same as none.
    pub(super) fn complete(&self, code: &str) -> oneshot::Receiver<Completion> {
        let (answer, receiver) = oneshot::channel();
        let (session, code) = (self.session.clone(), code.to_owned());
        self.runtime.spawn(async move {
            let asked = session.complete(&code, code.chars().count());
            if let Ok(Ok(completion)) = timeout(COMPLETION, asked).await {
                let _ = answer.send(completion);
            }
        });
        receiver
    }

    /// Waits a little for an answer; none if it has not come yet.
    pub(super) fn wait<T: Default>(&self, answer: &mut oneshot::Receiver<T>, time: Duration) -> Option<T> {
        let waited = self.runtime.block_on(async { timeout(time, answer).await });
        waited.ok().map(Result::unwrap_or_default)
    }
}
