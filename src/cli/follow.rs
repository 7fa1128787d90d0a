//! `cellblock session watch` and `session result`: what happens, or happened, in a session without us.

use anyhow::Result;
use cellblock::{Event, Session};
use futures_util::StreamExt as _;

use super::args::ResultArgs;
use super::exit::Exit;
use super::figures::Figures;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::connect;
use super::printer::Printer;
use super::run::print_json;
use super::view::{Screen, View};

/// Shows the cells of a session as they run, until Ctrl-C or its end.
pub(crate) async fn watch(name: &str, printer: &mut Printer) -> Result<Exit> {
    let mut interrupts = Interrupts::listen(WhenStuck::Leave)?;
    let mut events = Session::watch(connect().await?, name).await?;
    let mut figures = Figures::new(None)?;
    let mut screen = Screen { printer, figures: &mut figures, labelled: true };
    let mut view = View::default();
    loop {
        tokio::select! {
            event = events.next() => match event.transpose()? {
                Some(Event::Done(execution)) => std::mem::take(&mut view).done(&execution, &mut screen)?,
                Some(event) => view.event(&event, &mut screen)?,
                None => {
                    screen.printer.note("the session has ended");
                    return Ok(Exit::Ok);
                }
            },
            () = interrupts.next() => return Ok(Exit::Ok),
        }
    }
}

/// Waits for the cell that was left running, and prints it.
pub(crate) async fn result(args: &ResultArgs, printer: &mut Printer) -> Result<Exit> {
    // The result can be taken once: what it needs is there before.
    let mut figures = Figures::new(args.figures.directory.as_deref())?;
    let session = Session::attach(&args.name).engine(connect().await?).await?;
    let recovered = session.recovered().await;
    session.detach().await?;
    let Some(execution) = recovered? else {
        printer.note("no cell was left: whoever ran the last one has had its result");
        return Ok(Exit::Ok);
    };
    let mut screen = Screen { printer, figures: &mut figures, labelled: false };
    if args.json {
        print_json(&execution, args.figures.directory.is_some(), &mut screen)?;
    } else {
        View::of_finished().done(&execution, &mut screen)?;
    }
    Ok(Exit::of_status(&execution.status))
}
