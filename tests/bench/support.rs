//! Sessions for the benchmarks.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cellblock::{LinkPolicy, Session, SessionBuilder};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) const CODE: &str = "1+1";
pub(crate) const LINKS: [(LinkPolicy, &str); 2] = [(LinkPolicy::Socket, "socket"), (LinkPolicy::Relay, "relay")];

pub(crate) fn image() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| std::env::var("CELLBLOCK_TEST_IMAGE").unwrap_or_else(|_| "cellblock:base".to_owned()))
}

pub(crate) fn session(link: LinkPolicy) -> SessionBuilder {
    Session::builder().image(image()).link(link).timeout(Duration::from_secs(600))
}

/// Runs the code and returns how long it took. Anything but the right result is an error.
pub(crate) async fn call(session: &Session) -> Result<Duration> {
    let begin = Instant::now();
    let execution = session.run(CODE).await?;
    let took = begin.elapsed();
    match execution.text() {
        Some("2") => Ok(took),
        _ => Err(format!("{CODE} gave {execution:?}").into()),
    }
}

pub(crate) async fn calls(session: &Session, count: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        times.push(call(session).await?);
    }
    Ok(times)
}

/// The order in which arms are measured: another one to begin with each round, and the direction changes.
pub(crate) fn order(round: usize, arms: usize) -> impl Iterator<Item = usize> {
    (0..arms)
        .map(move |step| if round.is_multiple_of(2) { (round + step) % arms } else { (round + arms - step) % arms })
}

/// Where the sockets of a session's first kernel are on the host, up to the number, and its key: what a connection file says.
pub(crate) async fn connection(session: &Session) -> Result<(PathBuf, String)> {
    let containers = session.engine().list(&[("cellblock.session", session.name())]).await?;
    let directory = containers.first().and_then(|container| container.labels.get("cellblock.directory"));
    let directory = directory.ok_or("the container does not say which directory is the session's")?;
    let prefix = bases()
        .map(|base| base.join(directory).join("k1"))
        .find(|prefix| prefix.with_file_name("k1-1").exists())
        .ok_or("the kernel's sockets are not where they were expected")?;
    let execution = session.run("get_ipython().kernel.session.key.decode()").await?;
    let key = execution.text().ok_or("the kernel did not tell its key")?.trim_matches('\'').to_owned();
    Ok((prefix, key))
}

fn bases() -> impl Iterator<Item = PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|path| PathBuf::from(path).join("cellblock"));
    [Some(PathBuf::from("/run/cellblock")), runtime, Some(PathBuf::from(format!("/tmp/cellblock-{uid}")))]
        .into_iter()
        .flatten()
}
