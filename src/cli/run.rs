//! `cellblock run`.

use anyhow::{Context as _, Result};
use cellblock::{Execution, Output, State};

use super::args::RunArgs;
use super::cell::{Attendant, Attended, Manner};
use super::exit::Exit;
use super::figures::Figures;
use super::input::Input;
use super::interrupts::{Interrupts, WhenStuck};
use super::open::Opened;
use super::printer::Printer;
use super::view::Screen;

pub(crate) async fn run(args: &RunArgs, printer: &mut Printer) -> Result<Exit> {
    let cells = args.cells.read()?;
    let mut interrupts = Interrupts::listen(WhenStuck::Leave)?;
    let Some(opened) = Opened::open(&args.place, &mut interrupts).await? else {
        return Ok(Exit::Interrupted);
    };
    let ended = run_cells(args, &cells, &opened, &mut interrupts, printer).await;
    // Who pressed Ctrl-C twice does not want to wait; the container ends by itself.
    if !matches!(ended, Ok((_, Pace::AtOnce))) {
        opened.close(&mut interrupts, printer).await;
    }
    ended.map(|(exit, _)| exit)
}

enum Pace {
    InOrder,
    AtOnce,
}

async fn run_cells(
    args: &RunArgs,
    cells: &[String],
    opened: &Opened,
    interrupts: &mut Interrupts,
    printer: &mut Printer,
) -> Result<(Exit, Pace)> {
    let input = if args.cells.take_stdin() { None } else { Some(Input::start().context("cannot read stdin")?) };
    let mut figures = Figures::new(args.figures.directory.as_deref())?;
    let mut screen = Screen { printer, figures: &mut figures, labelled: false };
    let mut attendant = Attendant {
        session: &opened.session,
        timeout: args.timeout,
        input: input.as_ref(),
        interrupts,
        manner: if args.json { Manner::Data } else { Manner::Command },
    };
    let mut exit = Exit::Ok;
    for code in cells {
        let execution = match attendant.run(code, &mut screen).await? {
            Attended::Done(execution) => execution,
            Attended::Left => return Ok((exit.or(Exit::Interrupted), Pace::AtOnce)),
        };
        if args.json {
            print_json(&execution, args.figures.directory.is_some(), &mut screen)?;
        }
        let of_cell = Exit::of_status(&execution.status);
        exit = exit.or(of_cell);
        if execution.state == State::ContainerGone || (of_cell != Exit::Ok && !args.keep_going) {
            break;
        }
    }
    let of_figures = if screen.figures.failed { Exit::Failed } else { Exit::Ok };
    Ok((exit.or(of_figures), Pace::InOrder))
}

pub(crate) fn print_json(execution: &Execution, saves: bool, screen: &mut Screen<'_>) -> Result<()> {
    if saves {
        save_figures(execution, screen);
    }
    let json = serde_json::to_string(execution).context("cannot write the execution as JSON")?;
    screen.printer.line(json)
}

pub(crate) fn save_figures(execution: &Execution, screen: &mut Screen<'_>) {
    for output in &execution.outputs {
        if let Output::DisplayData(bundle) | Output::ExecuteResult { bundle, .. } = output {
            screen.save(bundle, None);
        }
    }
}
