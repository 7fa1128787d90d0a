//! Waiting for a container's end, whatever happens to the connection meanwhile.

use std::time::Duration;

use bollard::errors::Error as ClientError;
use bollard::query_parameters::WaitContainerOptionsBuilder;
use futures_util::StreamExt as _;

use super::Docker;
use super::failure::{failed, is_status};
use crate::Error;
use crate::engine::{ContainerId, Exit};
use crate::error::Kind;

/// How long until the container is asked for again, from the first pause to the longest: a connection can die without a word,
/// and Podman's wait for a container that is removed before it was started never ends.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How often in a row a wait may break without news before its error is passed on.
const PATIENCE: u32 = 3;

impl Docker {
    pub(super) async fn wait_container(&self, id: &ContainerId) -> Result<Exit, Error> {
        let mut broken = 0;
        loop {
            // "Next exit" holds for a container that is not started yet, and ends too when the container is removed. It
            // does not for one that has ended and stays; hence the question at the start.
            let options = WaitContainerOptionsBuilder::new().condition("next-exit").build();
            let mut wait = Box::pin(self.client.wait_container(&id.0, Some(options)));
            let mut delay = Duration::ZERO;
            let error = loop {
                let ask = async {
                    tokio::time::sleep(delay).await;
                    self.ended(id).await
                };
                tokio::select! {
                    biased;
                    answer = wait.next() => match answer {
                        Some(Ok(answer)) => return Ok(Exit { code: Some(answer.status_code) }),
                        Some(Err(ClientError::DockerContainerWaitError { code, .. })) => return Ok(Exit { code: Some(code) }),
                        Some(Err(error)) if is_status(&error, 404) => return Ok(self.gone(id).await),
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    },
                    ended = ask => {
                        if let Ok(Some(exit)) = ended {
                            return Ok(exit);
                        }
                        delay = (delay * 2).clamp(ASK_AGAIN.0, ASK_AGAIN.1);
                    }
                }
            };
            if let Some(exit) = self.ended(id).await? {
                return Ok(exit);
            }
            // The client's own time limit is no news.
            if matches!(error, Some(ClientError::RequestTimeoutError)) {
                continue;
            }
            broken += 1;
            if broken == PATIENCE {
                let attempted = format!("cannot wait for the end of container {id}");
                return Err(match error {
                    Some(error) => failed(Kind::Engine, attempted, error),
                    None => Error::new(Kind::Engine, attempted),
                });
            }
        }
    }

    /// How the container ended, if it has.
    async fn ended(&self, id: &ContainerId) -> Result<Option<Exit>, Error> {
        let Some(inspected) = self.inspect(id).await? else {
            return Ok(Some(self.gone(id).await));
        };
        let has_ended = matches!(inspected.state.status.as_deref(), Some("exited" | "dead" | "stopped" | "removing"));
        Ok(has_ended.then_some(Exit { code: inspected.state.exit_code }))
    }

    async fn gone(&self, id: &ContainerId) -> Exit {
        Exit { code: self.remembered_exit_code(id).await }
    }
}
