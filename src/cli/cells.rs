//! The cells of `cellblock run`: every `-c` and every file, in the order in which they stand on the command line.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::printer::Usage;

/// Where a cell's code comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// `-c CODE`
    Code(String),
    /// `FILE.py`
    File(PathBuf),
    /// `-`
    Stdin,
}

/// The cells in order.
#[derive(Debug, Clone)]
pub(crate) struct Cells(Vec<Cell>);

impl Cells {
    /// Whether one of them takes all of stdin, so that nothing is left for `input()`.
    pub(crate) fn take_stdin(&self) -> bool {
        self.0.contains(&Cell::Stdin)
    }

    /// Reads all of them, before anything is started.
    pub(crate) fn read(&self) -> Result<Vec<String>> {
        self.0.iter().map(Cell::read).collect()
    }
}

impl Cell {
    /// That of a file's name; `-` is stdin.
    pub(crate) fn named(file: &OsStr) -> Self {
        if file == "-" { Self::Stdin } else { Self::File(file.into()) }
    }

    /// Reads it.
    pub(crate) fn read(&self) -> Result<String> {
        let (bytes, name) = match self {
            Self::Code(code) => return Ok(code.clone()),
            Self::File(path) => {
                let name = path.display().to_string();
                // Unusable input is a usage error, as it is for `python FILE`.
                let bytes = std::fs::read(path).map_err(|error| Usage(error.to_string()));
                (bytes.with_context(|| format!("cannot read `{name}`"))?, name)
            }
            Self::Stdin => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).context("cannot read stdin")?;
                (bytes, "stdin".to_owned())
            }
        };
        let text = String::from_utf8(bytes).map_err(|_| Usage(format!("`{name}` is not UTF-8 text")))?;
        Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }
}

// By hand and not derived, because only the matches know the order of `-c` and files among each other.
impl Args for Cells {
    fn augment_args(command: Command) -> Command {
        let code = Arg::new("code")
            .short('c')
            .value_name("CODE")
            .action(ArgAction::Append)
            .allow_hyphen_values(true)
            .help("Run this code as one cell; repeatable, in order with the files");
        let files = Arg::new("files")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(OsString))
            .help("Run each file as one cell; `-` is stdin");
        command.arg(code).arg(files).group(ArgGroup::new("cells").args(["code", "files"]).required(true).multiple(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Cells {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let codes = matches
            .indices_of("code")
            .into_iter()
            .flatten()
            .zip(matches.get_many::<String>("code").into_iter().flatten())
            .map(|(index, code)| (index, Cell::Code(code.clone())));
        let files = matches
            .indices_of("files")
            .into_iter()
            .flatten()
            .zip(matches.get_many::<OsString>("files").into_iter().flatten())
            .map(|(index, file)| (index, Cell::named(file)));
        let mut cells: Vec<(usize, Cell)> = codes.chain(files).collect();
        cells.sort_by_key(|(index, _)| *index);
        if cells.iter().filter(|(_, cell)| *cell == Cell::Stdin).count() > 1 {
            let message = "stdin can be read once: `-` is there twice\n";
            return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message));
        }
        Ok(Self(cells.into_iter().map(|(_, cell)| cell).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Vec<Cell>, clap::Error> {
        let command = Cells::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from([&["run"], args].concat())?;
        Cells::from_arg_matches(&matches).map(|cells| cells.0)
    }

    #[test]
    fn order_is_that_of_the_command_line() {
        let cells = parse(&["-c", "1", "a.py", "-c", "-2", "-", "b.py"]).unwrap();
        let expected = [
            Cell::Code("1".into()),
            Cell::File("a.py".into()),
            Cell::Code("-2".into()),
            Cell::Stdin,
            Cell::File("b.py".into()),
        ];
        assert_eq!(cells, expected);
    }

    #[test]
    fn at_least_one_and_stdin_once() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["-", "-"]).is_err());
        assert_eq!(parse(&["-"]).unwrap(), [Cell::Stdin]);
    }
}
