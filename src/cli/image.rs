//! `cellblock image`.

use std::time::{Duration, Instant};

use anyhow::Result;
use cellblock::{BuildEvent, Docker, ImageBuild, ImageTarget};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::{BuildArgs, ImageCommand, Target};
use super::exit::Exit;
use super::printer::{Printer, To};

pub(crate) async fn image(command: &ImageCommand, printer: &mut Printer) -> Result<Exit> {
    match command {
        ImageCommand::Build(args) => build(args, printer).await,
    }
}

async fn build(args: &BuildArgs, printer: &mut Printer) -> Result<Exit> {
    let (target, name) = match args.target {
        Target::Base => (ImageTarget::Base, "base"),
        Target::Data => (ImageTarget::Data, "data"),
    };
    let tag = args.tag.clone().unwrap_or_else(|| format!("cellblock:{name}"));
    let mut build = ImageBuild::new(target).tag(&tag).with(&args.with);
    if let Some(base) = &args.base {
        build = build.base(base);
    }
    if let Some(network) = &args.network {
        build = build.network(network);
    }
    let engine = Docker::connect().await?;
    let began = Instant::now();
    let mut progress = Progress::new(printer);
    let built = build.run(&engine, |event| progress.show(&event)).await;
    progress.end();
    built?;
    printer.note(format_args!("built in {} s", began.elapsed().as_secs()));
    printer.line(tag)?;
    Ok(Exit::Ok)
}

/// A bar for a terminal; a line for every step otherwise, and for every line with `-v`.
struct Progress<'a> {
    printer: &'a mut Printer,
    bar: Option<ProgressBar>,
    every_line: bool,
    step: u32,
}

impl<'a> Progress<'a> {
    fn new(printer: &'a mut Printer) -> Self {
        let every_line = tracing::enabled!(tracing::Level::INFO);
        let bar = (printer.is_terminal(To::Stderr) && !every_line).then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{bar:24} step {pos}/{len}, {elapsed}: {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            // Steps are long and some are silent: the clock shows that it goes on.
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { printer, bar, every_line, step: 0 }
    }

    fn show(&mut self, event: &BuildEvent) {
        let is_new = self.step != event.step;
        self.step = event.step;
        match &self.bar {
            Some(bar) => {
                bar.set_length(event.total.into());
                bar.set_position(event.step.into());
                bar.set_message(event.text.clone());
            }
            None if is_new => {
                self.printer.note(format_args!("step {}/{}: {}", event.step, event.total, event.text));
            }
            None if self.every_line => self.printer.note(&event.text),
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
