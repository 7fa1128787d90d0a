//! The Python process of the other side.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use cellblock::Session;

use crate::side::Side;
use crate::support::{Result, connection};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/jupyter_side.py");

/// `jupyter_client` in a process of its own.
pub(crate) struct Jupyter(Side);

impl Jupyter {
    pub(crate) fn spawn() -> Result<Self> {
        let python = std::env::var_os("CELLBLOCK_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let side = Side::spawn(
            Command::new(python).arg(PROGRAM).kill_on_drop(true),
            "the Python process ended; CELLBLOCK_TEST_PYTHON must have jupyter_client and ipykernel",
        )?;
        Ok(Self(side))
    }

    pub(crate) async fn ask(&mut self, request: &Value) -> Result<Value> {
        self.0.ask(request).await
    }

    pub(crate) async fn times(&mut self, request: &Value) -> Result<Vec<Duration>> {
        self.0.times(request).await
    }

    /// Connects a client to the kernel of a session on the socket link.
    pub(crate) async fn connect(&mut self, name: &str, session: &Session) -> Result<()> {
        let (prefix, key) = connection(session).await?;
        self.ask(&json!({ "do": "connect", "name": name, "prefix": prefix, "key": key })).await?;
        Ok(())
    }

    pub(crate) async fn warm(&mut self, name: &str, way: &str, calls: usize) -> Result<Vec<Duration>> {
        self.times(&json!({ "do": "warm", "name": name, "way": way, "calls": calls })).await
    }
}
