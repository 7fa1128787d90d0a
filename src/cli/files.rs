//! `cellblock files`.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use cellblock::{FileEntry, FileKind, Files, Progress, Session, Transfer};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::args::FilesCommand;
use super::exit::Exit;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::connect;
use super::printer::{Printer, To, Usage};
use super::session::aligned;
use super::units;

/// How long the end of an interrupted command waits for what is half done to be gone.
const CLEARANCE: Duration = Duration::from_secs(10);

pub(crate) async fn files(command: &FilesCommand, printer: &mut Printer) -> Result<Exit> {
    let work = Work::of(command)?;
    let (FilesCommand::Put { session, .. }
    | FilesCommand::Get { session, .. }
    | FilesCommand::List { session, .. }
    | FilesCommand::Rm { session, .. }) = command;
    let mut interrupts = Interrupts::listen(WhenStuck::Wait)?;
    let attach = async { anyhow::Ok(Session::attach(&session.name).engine(connect().await?).await?) };
    let session = tokio::select! {
        session = attach => session?,
        () = interrupts.next() => return Ok(Exit::Interrupted),
    };
    let (over, mut settled) = mpsc::channel(1);
    let files = session.files();
    let ended = tokio::select! {
        ended = work.run(&files, over, printer) => ended,
        () = interrupts.next() => Ok(Exit::Interrupted),
    };
    let _ = timeout(CLEARANCE, settled.recv()).await;
    match timeout(CLEARANCE, session.detach()).await {
        Ok(Err(error)) if ended.is_ok() && !error.is_session_gone() => Err(error.into()),
        _ => ended,
    }
}

/// What is to be done, its arguments complete.
enum Work {
    Put { source: PathBuf, path: String },
    PutStdin { path: String },
    Get { path: String, destination: PathBuf, force: bool, max_size: Option<u64> },
    GetStdout { path: String },
    List { path: String, recursive: bool, json: bool },
    Remove { paths: Vec<String>, recursive: bool },
}

impl Work {
    fn of(command: &FilesCommand) -> Result<Self> {
        Ok(match command {
            FilesCommand::Put { source, path, .. } if source == Path::new("-") => {
                let path = path.clone().filter(|path| !path.ends_with('/'));
                let path = path.ok_or_else(|| Usage("stdin has no name: say which PATH it becomes".to_owned()))?;
                Self::PutStdin { path }
            }
            FilesCommand::Put { source, path, .. } => {
                let path = path.as_deref().unwrap_or(".");
                let path = match path {
                    "." | "/mnt/data" | "/workspace" => name_of(source)?,
                    directory if directory.ends_with('/') => format!("{directory}{}", name_of(source)?),
                    path => path.to_owned(),
                };
                Self::Put { source: source.clone(), path }
            }
            FilesCommand::Get { path, destination: Some(to), .. } if to == Path::new("-") => {
                Self::GetStdout { path: path.clone() }
            }
            FilesCommand::Get { path, destination, force, max_size, .. } => {
                let destination = destination.as_deref().unwrap_or(Path::new("."));
                let into = destination.is_dir() || destination.as_os_str().as_encoded_bytes().ends_with(b"/");
                let destination = if into { destination.join(last_part(path)?) } else { destination.to_owned() };
                Self::Get { path: path.clone(), destination, force: *force, max_size: *max_size }
            }
            FilesCommand::List { path, recursive, json, .. } => {
                Self::List { path: path.clone(), recursive: *recursive, json: *json }
            }
            FilesCommand::Rm { paths, recursive, .. } => Self::Remove { paths: paths.clone(), recursive: *recursive },
        })
    }

    /// `over` is dropped when nothing of it goes on any more.
    async fn run(self, files: &Files, over: mpsc::Sender<()>, printer: &mut Printer) -> Result<Exit> {
        match self {
            Self::Put { source, path } => {
                let bar = Bar::new(printer, over);
                let transfer = files.upload(source, path).progress(bar.observer()).await;
                bar.end();
                report(&transfer?, printer);
            }
            Self::PutStdin { path } => files.put_reader(&path, tokio::io::stdin(), None).await?,
            Self::Get { path, destination, force, max_size } => {
                let bar = Bar::new(printer, over);
                let mut download = files.download(path, destination).overwrite(force).progress(bar.observer());
                if let Some(size) = max_size {
                    download = download.max_bytes(size);
                }
                let transfer = download.await;
                bar.end();
                report(&transfer?, printer);
            }
            Self::GetStdout { path } if printer.is_terminal(To::Stdout) => {
                let content = files.get(&path).await?;
                printer.copy(To::Stdout, content.as_ref())?;
                printer.end_colour()?;
                printer.begin_line(To::Stdout)?;
            }
            Self::GetStdout { path } => {
                let mut reader = files.open(&path).await?;
                while let Some(chunk) = reader.chunk().await? {
                    printer.bytes(To::Stdout, &chunk)?;
                }
            }
            Self::List { path, recursive, json } => {
                let entries = if recursive { files.list_tree(&path).await? } else { files.list(&path).await? };
                list(&entries, json, printer)?;
            }
            Self::Remove { paths, recursive } => return remove(files, &paths, recursive, printer).await,
        }
        Ok(Exit::Ok)
    }
}

/// The name that a file of the host has, also where it is written as `.` or `..`.
fn name_of(source: &Path) -> Result<String> {
    let whole = match source.file_name() {
        Some(_) => source.to_owned(),
        None => source.canonicalize().with_context(|| Usage(format!("cannot read `{}`", source.display())))?,
    };
    let name = whole.file_name().and_then(|name| name.to_str());
    Ok(name
        .ok_or_else(|| Usage(format!("`{}` has no name of text: say which PATH it becomes", source.display())))?
        .to_owned())
}

fn last_part(path: &str) -> Result<&str> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match name {
        "" | "." | ".." => Err(Usage(format!("{path:?} has no name of its own: say where to copy it to")).into()),
        name if name.contains(char::is_control) => {
            Err(Usage(format!("{path:?} is no name for a file here: say where to copy it to")).into())
        }
        name => Ok(name),
    }
}

async fn remove(files: &Files, paths: &[String], recursive: bool, printer: &mut Printer) -> Result<Exit> {
    let mut exit = Exit::Ok;
    for path in paths {
        let removed = if recursive { files.remove_tree(path).await } else { files.remove(path).await };
        if let Err(error) = removed {
            let error = anyhow::Error::new(error);
            exit = exit.or(Exit::of_error(&error));
            printer.error(&error);
        }
    }
    Ok(exit)
}

fn list(entries: &[FileEntry], json: bool, printer: &mut Printer) -> Result<()> {
    if json {
        let entries: Vec<_> = entries.iter().map(as_json).collect();
        return printer.line(json!({ "v": 1, "files": entries }));
    }
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let size = if entry.kind == FileKind::File { units::bytes(entry.size) } else { "-".to_owned() };
            let modified = entry.modified.and_then(|time| jiff::Timestamp::try_from(time).ok());
            let modified = modified.map_or("-".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string());
            [format!("{}{}", letter(entry.kind), permissions(entry.mode)), size, modified, escaped(&entry.path)]
        })
        .collect();
    for row in aligned(&rows) {
        printer.line(row)?;
    }
    Ok(())
}

fn as_json(entry: &FileEntry) -> serde_json::Value {
    let modified = entry.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    json!({
        "path": entry.path,
        "kind": kind(entry.kind),
        "size": entry.size,
        "modified": modified.map(|time| time.as_secs_f64()),
        "mode": entry.mode,
    })
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        _ => "other",
    }
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        _ => '?',
    }
}

/// As `ls` writes them.
fn permissions(mode: u32) -> String {
    "rwxrwxrwx".char_indices().map(|(at, letter)| if mode >> (8 - at) & 1 == 1 { letter } else { '-' }).collect()
}

/// A name on one line, whatever code in the session chose it to be.
fn escaped(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Says what was left out; the rest can be seen.
fn report(transfer: &Transfer, printer: &mut Printer) {
    for skipped in &transfer.skipped {
        printer.note(format_args!("left out: {}: {}", escaped(&skipped.path), skipped.reason));
    }
    let more = transfer.skipped_total.saturating_sub(transfer.skipped.len() as u64);
    if more > 0 {
        printer.note(format_args!("left out: {more} more"));
    }
}

/// A bar on a terminal, and nothing elsewhere.
struct Bar {
    bar: Option<ProgressBar>,
    over: mpsc::Sender<()>,
}

impl Bar {
    fn new(printer: &Printer, over: mpsc::Sender<()>) -> Self {
        let bar = printer.is_terminal(To::Stderr).then(|| {
            let bar = ProgressBar::no_length();
            bar.set_style(style("{spinner} {bytes}, {binary_bytes_per_sec} {msg}"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, over }
    }

    fn observer(&self) -> impl FnMut(Progress) + Send + 'static {
        let (bar, over) = (self.bar.clone(), self.over.clone());
        move |progress| {
            let _held = &over;
            let Some(bar) = &bar else { return };
            if let Some(total) = progress.total.filter(|_| bar.length().is_none()) {
                bar.set_length(total);
                bar.set_style(style("{bar:24} {bytes} of {total_bytes}, {binary_bytes_per_sec}"));
            }
            bar.set_position(progress.bytes);
            if progress.total.is_none() {
                bar.set_message(format!("{} files", progress.files));
            }
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(escaped("a\nb\u{1b}[2J\u{9b}é"), "a\\nb\\u{1b}[2J\\u{9b}é");
    }

    #[test]
    fn permissions_are_written_as_ls_does() {
        assert_eq!(permissions(0o100_644), "rw-r--r--");
        assert_eq!(permissions(0o755), "rwxr-xr-x");
    }
}
