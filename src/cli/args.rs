//! The command line: what was typed, checked, and not yet acted on.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::cells::Cells;
use super::container::ContainerArgs;
use super::{exit, units};

/// Stateful Python in a locked container
#[derive(Debug, Parser)]
#[command(name = "cellblock", version, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// What a shell reads to complete command lines.
    pub(crate) fn completions(shell: Shell) -> Vec<u8> {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Self::command(), "cellblock", &mut script);
        script
    }
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Say more on stderr: -v informs, -vv debugs; `CELLBLOCK_LOG` takes a filter
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Global", display_order = 100)]
    pub(crate) verbose: u8,
    /// Colour messages and tracebacks; `auto`: on a terminal, if `NO_COLOR` is not set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        global = true,
        help_heading = "Global",
        display_order = 101
    )]
    pub(crate) color: Color,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run cells of Python in a fresh container, or in a session
    ///
    /// Each `-c` and each file is one cell; all of them share their variables. What a cell writes to stdout and stderr goes
    /// to stdout and stderr as it comes, the value of its last expression to stdout, a traceback to stderr. The first cell
    /// that is not ok is the last that runs. Figures are saved as files, and their names told on stderr.
    ///
    /// `input()` reads a line of stdin, unless the code itself came from there. Ctrl-C interrupts the cell; a second Ctrl-C
    /// leaves at once.
    Run(Box<RunArgs>),
    /// Run a shell script in a fresh container, or in a session
    ///
    /// The script's bytes become a file of the container, which the shell is given; what it writes to stdout and stderr goes there as it
    /// comes. All processes that it has started end with it. Ctrl-C ends it; a second Ctrl-C leaves at once.
    Shell(Box<ShellArgs>),
    /// Carry out the code blocks of a message in Markdown
    ///
    /// Blocks of Python run in the kernel and share their variables, those of shells run as files; javascript, html and css are saved. A comment
    /// in the first line names a block's file: `# filename: a/b.py`. What a block writes to stdout and stderr goes to stdout and stderr as it
    /// comes. The first block that fails is the last that runs.
    ///
    /// The exit code is that of the last block that was run: 124 if its time was up, 1 for a Python error or an unsupported
    /// language, 127 if the image lacks its interpreter. 2 and 5 to 7 may also be of the command itself, as for `run`.
    Blocks(Box<BlocksArgs>),
    /// Start, list and stop sessions that go on between commands
    #[command(subcommand)]
    Session(SessionCommand),
    /// Copy files into a session's work directory and out of it
    ///
    /// PATH is relative to the work directory, or begins with `/mnt/data/` or `/workspace/`. No symbolic link in the session is followed. What is copied appears
    /// whole or not at all.
    #[command(subcommand)]
    Files(FilesCommand),
    /// Remove sessions that are of no use to anybody: those of killed commands, and those whose container has ended
    Prune,
    /// Work with Python line by line
    ///
    /// Enter runs the cell once it is complete, and a blank line ends an indented block; Alt-Enter always begins a new line.
    /// Tab completes. Ctrl-C clears the line, or interrupts the running cell and keeps the variables. Ctrl-D leaves. `:help`
    /// lists the rest.
    Repl(Box<ReplArgs>),
    /// Serve sessions over HTTP, in the wire format of Azure Container Apps dynamic sessions
    ///
    /// A client names its session by an identifier; one that is not there is made. Without `--token-file` a token is made and printed.
    #[cfg(feature = "serve")]
    Serve(Box<super::serve::ServeArgs>),
    /// Make the image that sessions run in
    #[command(subcommand)]
    Image(ImageCommand),
    /// Print the completions of a shell, to be put where it looks for them
    ///
    /// For bash: `cellblock completions bash > ~/.local/share/bash-completion/completions/cellblock`
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = exit::HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) cells: Cells,
    /// Print one line of JSON per cell and nothing else on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// The time that each cell may take, such as `90`, `1m30s`, `2h` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Go on with the next cell after one that is not ok
    #[arg(long)]
    pub(crate) keep_going: bool,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
#[command(after_long_help = exit::SHELL_HELP)]
pub(crate) struct ShellArgs {
    /// Run this script
    #[arg(short = 'c', value_name = "SCRIPT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) script: Option<String>,
    /// Run the script in this file of yours; `-` is stdin
    #[arg(value_name = "FILE", required_unless_present = "script")]
    pub(crate) file: Option<PathBuf>,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARG")]
    pub(crate) args: Vec<OsString>,
    /// What runs it: `bash`, `sh`, `pwsh`, or any interpreter of the image by its name, with arguments such as `awk -f`
    #[arg(long, value_name = "PROGRAM", default_value = "bash")]
    pub(crate) shell: String,
    /// Where it runs [default: the work directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Give it what is on stdin, which it otherwise finds empty
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Print one line of JSON and nothing else on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// The time that it may take, such as `90`, `1m30s`, `2h` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct BlocksArgs {
    /// The message; `-` is stdin
    #[arg(value_name = "MESSAGE.md")]
    pub(crate) message: OsString,
    /// Run blocks of Python as cells of the kernel, which keeps their variables, or each as a file
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) python: Python,
    /// Run blocks of a language as files with a program of the image, such as `js=node` or `ts=deno run`; repeatable
    #[arg(long = "with", value_name = "LANGUAGE=PROGRAM", value_parser = interpreter)]
    pub(crate) interpreters: Vec<(String, String)>,
    /// Go on with the next block after one that fails
    #[arg(long = "continue", alias = "keep-going")]
    pub(crate) keep_going: bool,
    /// Print one line of JSON when all is done and nothing else on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// The time that each block may take, such as `90`, `1m30s`, `2h` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Python {
    #[default]
    Kernel,
    File,
}

fn interpreter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((language, program)) if !language.trim().is_empty() && !program.trim().is_empty() => {
            Ok((language.to_owned(), program.to_owned()))
        }
        _ => Err("it is a language and a program, such as `js=node`".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct FigureArgs {
    /// Save figures in this directory [default: the current one; with --json: nowhere]
    #[arg(long = "figures", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

/// Where cells run: a session that is there, or a container of their own.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Run in this session, made by `cellblock session start`, and leave it running
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Start a session that goes on without this command, and print its name
    ///
    /// Ctrl-C while it starts removes it again; a second Ctrl-C leaves at once.
    Start(Box<StartArgs>),
    /// List your sessions on this engine
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End sessions and remove their containers
    Stop {
        /// The sessions' names
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "NAME")]
        names: Vec<String>,
        /// Stop every session of yours on this engine, those that other commands hold included
        #[arg(long)]
        all: bool,
    },
    /// Follow what happens in a session, without taking hold of it
    ///
    /// It begins with the latest cell, and ends with the session or with Ctrl-C.
    Watch {
        /// The session's name
        name: String,
    },
    /// Wait for the cell that a killed or disconnected command left running, and print its result
    Result(ResultArgs),
    /// Restart a session's kernel: variables are gone, files are kept
    Restart {
        /// The session's name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The session's name
    pub(crate) name: String,
    /// Print one line of JSON and nothing else on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The session's name: letters, digits, `.`, `_`, `-`
    pub(crate) name: String,
    /// End the session after this long without a command using it [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// End the session this long after its start, whatever happens [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) max_life: Option<Duration>,
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FilesCommand {
    /// Copy a file or a directory into a session
    ///
    /// A file takes the place of one that is there. A directory must find nothing, or an empty directory; links, pipes, devices and names with control
    /// characters in it are left out, and told.
    Put {
        /// The file or directory; `-` is stdin
        #[arg(value_name = "LOCAL")]
        source: PathBuf,
        /// Its path in the session, or, with a `/` at the end, that of the directory to put it into [default: its name]
        path: Option<String>,
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Copy a file or a directory out of a session
    ///
    /// Nothing that exists is overwritten, unless it is a file and `--force` is given. In a directory links, pipes, devices and names with control characters
    /// are left out, and told.
    Get {
        /// The path in the session
        path: String,
        /// Where to copy it to, or a directory to copy it into; `-` is stdout [default: the current directory]
        #[arg(value_name = "LOCAL")]
        destination: Option<PathBuf>,
        /// Overwrite a file that exists
        #[arg(short, long)]
        force: bool,
        /// Copy at most so many bytes, such as `500m`, `20g` [default: 4g]
        #[arg(long, value_name = "SIZE", value_parser = units::size)]
        max_size: Option<u64>,
        #[command(flatten)]
        session: SessionArgs,
    },
    /// List what is in a directory of a session
    #[command(visible_alias = "ls")]
    List {
        /// The directory, or a file
        #[arg(default_value = ".")]
        path: String,
        /// With all that is in the directories below
        #[arg(short, long)]
        recursive: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Remove files of a session
    Rm {
        /// The paths in the session
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        /// Remove directories with all that is in them
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        session: SessionArgs,
    },
}

/// Which session.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The session, made by `cellblock session start`
    #[arg(long = "session", value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    /// The time that each cell may take
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "1h")]
    pub(crate) timeout: Duration,
    /// Save figures in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) figures: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build the kernel image
    Build(BuildArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// `base`: Python and the kernel; `data`: numpy, pandas, matplotlib and their like too
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// The image's name [default: cellblock:TARGET]
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Also install these packages, such as `duckdb==1.4.2`
    #[arg(long, value_name = "PACKAGE", num_args = 1..)]
    pub(crate) with: Vec<String>,
    /// Build on this image instead of `python:3.13-slim`; any with Python 3.10 or newer
    #[arg(long, value_name = "IMAGE")]
    pub(crate) base: Option<String>,
    /// The network that the build uses [default: the engine's]
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    Base,
    #[default]
    Data,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold() {
        Cli::command().debug_assert();
    }
}
