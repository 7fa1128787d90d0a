//! `metadata`: what is installed where code runs.

use axum::Json;
use axum::extract::{OriginalUri, State as Extracted};
use serde_json::Value;

use super::version::Version;
use crate::serve::query::Query;
use crate::serve::refusal::{Code, Refusal};
use crate::serve::server::State;

/// Asked of a session of its own, once.
const QUESTION: &str = r#"
import importlib.metadata as _metadata, json as _json, platform as _platform, time as _time
_packages = {d.metadata["Name"]: d for d in _metadata.distributions() if d.metadata["Name"]}
_kernel = _packages["ipykernel"]
_made = _time.strftime("%Y-%m-%dT%H:%M:%SZ", _time.gmtime(max(d.locate_file("").stat().st_mtime for d in _packages.values())))
print(_json.dumps({
    "runtimes": [{"name": "Python", "version": _platform.python_version()}],
    "preInstalledPackages": [{"name": n, "version": d.version} for n, d in sorted(_packages.items(), key=lambda p: p[0].lower())],
    "createdAt": _made,
    "lastUpdatedAt": _made,
    "jupyterKernel": {
        "name": "ipykernel",
        "version": _kernel.version,
        "projectUrl": "https://ipython.org",
        "description": _kernel.metadata["Summary"],
    },
}))
"#;

pub(super) async fn get(
    Extracted(state): Extracted<State>,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<Value>, Refusal> {
    Version::of(&Query::parse(&uri)?)?.at_least(Version::SESSIONS, "metadata")?;
    // Whoever has asked may go away: the session would be left over.
    let asked = tokio::spawn(async move { state.metadata.get_or_try_init(|| ask(&state)).await.cloned() });
    let metadata = asked.await.map_err(|_| Refusal::new(Code::Internal, "the image could not be asked"))?;
    metadata.map(Json)
}

async fn ask(state: &State) -> Result<Value, Refusal> {
    let session = state.store.spare().await?;
    let execution = session.run(QUESTION).await;
    let _ = session.stop().await;
    serde_json::from_str(&execution?.stdout.text)
        .map_err(|_| Refusal::new(Code::Internal, "the image does not tell what is installed in it"))
}
