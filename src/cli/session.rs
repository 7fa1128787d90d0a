//! `cellblock session`.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use cellblock::{Error, Lease, Session, SessionSummary, State};
use serde_json::json;

use super::args::{SessionCommand, StartArgs};
use super::exit::Exit;
use super::follow;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::connect;
use super::outcome;
use super::printer::Printer;
use super::units::age;

pub(crate) async fn session(command: &SessionCommand, printer: &mut Printer) -> Result<Exit> {
    match command {
        SessionCommand::Start(args) => start(args, printer).await,
        SessionCommand::List { json } => list(*json, printer).await,
        SessionCommand::Stop { names, all } => stop(names, *all, printer).await,
        SessionCommand::Watch { name } => follow::watch(name, printer).await,
        SessionCommand::Result(args) => follow::result(args, printer).await,
        SessionCommand::Restart { name } => restart(name, printer).await,
    }
}

async fn start(args: &StartArgs, printer: &mut Printer) -> Result<Exit> {
    let mut builder = args.container.builder()?.name(&args.name).detached(true);
    if let Some(idle) = args.idle_timeout {
        builder = builder.idle_timeout(idle);
    }
    if let Some(life) = args.max_life {
        builder = builder.max_life(life);
    }
    let mut interrupts = Interrupts::listen(WhenStuck::Leave)?;
    let mut starting = Box::pin(builder.engine(connect().await?).start());
    let session = tokio::select! {
        started = &mut starting => started?,
        () = interrupts.next() => {
            give_up(starting, &mut interrupts, printer).await;
            return Ok(Exit::Interrupted);
        }
    };
    // So that the next command finds it free, and not in the hands of one that has just ended.
    session.detach().await?;
    printer.line(session.name())?;
    Ok(Exit::Ok)
}

/// Removes a session that is not wanted any more as it starts. It would outlive this command.
async fn give_up(
    starting: impl Future<Output = Result<Session, Error>>,
    interrupts: &mut Interrupts,
    printer: &mut Printer,
) {
    let removed = async {
        match starting.await {
            Ok(session) => session.stop().await,
            Err(_) => Ok(()),
        }
    };
    tokio::select! {
        removed = removed => {
            if let Err(error) = removed {
                printer.error(&error.into());
            }
        }
        () = interrupts.next() => {}
    }
}

async fn list(json: bool, printer: &mut Printer) -> Result<Exit> {
    let engine = connect().await?;
    let sessions = Session::list(engine.as_ref()).await?;
    if json {
        let sessions: Vec<_> = sessions.iter().map(as_json).collect();
        printer.line(json!({ "v": 1, "sessions": sessions }))?;
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        printer.note("no sessions");
        return Ok(Exit::Ok);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
    let mut rows = vec![["NAME", "STATE", "LEASE", "AGE", "IMAGE"].map(str::to_owned)];
    rows.extend(sessions.iter().map(|session| {
        [
            session.name.clone(),
            session.state.clone(),
            lease(session.lease).to_owned(),
            age(now - session.created),
            session.image.clone(),
        ]
    }));
    for row in aligned(&rows) {
        printer.line(row)?;
    }
    Ok(Exit::Ok)
}

async fn stop(names: &[String], all: bool, printer: &mut Printer) -> Result<Exit> {
    let engine = connect().await?;
    let names = if all {
        Session::list(engine.as_ref()).await?.into_iter().map(|session| session.name).collect()
    } else {
        names.to_vec()
    };
    if names.is_empty() {
        printer.note("no sessions");
    }
    let mut exit = Exit::Ok;
    for name in names {
        match Session::remove(engine.as_ref(), &name).await {
            Ok(()) => printer.line(name)?,
            // One that ended by itself since it was listed is stopped.
            Err(error) if all && error.is_no_such_session() => {}
            Err(error) => {
                let error = anyhow::Error::new(error);
                exit = exit.or(Exit::of_error(&error));
                printer.error(&error);
            }
        }
    }
    Ok(exit)
}

/// `cellblock prune`
pub(crate) async fn prune(printer: &mut Printer) -> Result<Exit> {
    let removed = Session::prune(connect().await?.as_ref()).await?;
    if removed.is_empty() {
        printer.note("nothing to remove");
    }
    for name in removed {
        printer.line(name)?;
    }
    Ok(Exit::Ok)
}

async fn restart(name: &str, printer: &mut Printer) -> Result<Exit> {
    let session = Session::attach(name).engine(connect().await?).await?;
    session.restart().await?;
    session.detach().await?;
    printer.note(outcome::state(State::KernelRestarted));
    Ok(Exit::Ok)
}

fn as_json(session: &SessionSummary) -> serde_json::Value {
    json!({
        "name": session.name,
        "container": session.container.0,
        "image": session.image,
        "state": session.state,
        "lease": lease(session.lease),
        "created": session.created,
    })
}

fn lease(lease: Lease) -> &'static str {
    match lease {
        Lease::Owned => "owned",
        Lease::Detached => "detached",
        _ => "unknown",
    }
}

/// The rows with every column but the last as wide as its widest field.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, field) in widths.iter_mut().zip(row) {
            *width = (*width).max(field.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let fields = row.iter().zip(widths).map(|(field, width)| format!("{field:width$}"));
        fields.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [["NAME", "AGE"].map(str::to_owned), ["analysis", "3m"].map(str::to_owned)];
        assert_eq!(aligned(&rows), ["NAME      AGE", "analysis  3m"]);
    }
}
