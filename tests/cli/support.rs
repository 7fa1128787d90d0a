//! Running the command, with and without a terminal.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cellblock::Docker;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command, in an environment that says nothing about colours, logs or directories.
pub(crate) fn cellblock<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellblock"));
    for variable in ["NO_COLOR", "CELLBLOCK_LOG", "XDG_STATE_HOME"] {
        command.env_remove(variable);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end with nothing on stdin.
pub(crate) fn run<const N: usize>(args: [&str; N]) -> Ended {
    ended(&cellblock(args).output().unwrap())
}

/// `cellblock run` in a container of the test image.
pub(crate) fn run_cells<const N: usize>(image: &str, args: [&str; N]) -> Ended {
    ended(&cells(image, args).output().unwrap())
}

pub(crate) fn cells<const N: usize>(image: &str, args: [&str; N]) -> Command {
    cellblock(["run", "--image", image].into_iter().chain(args))
}

/// Runs it to its end with this on stdin.
pub(crate) fn feed(mut command: Command, stdin: &[u8]) -> Ended {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        // A command that failed has not read all of it.
        let _ = pipe.write_all(&stdin);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    ended(&output)
}

pub(crate) fn ended(output: &Output) -> Ended {
    Ended {
        code: output.status.code().expect("it was not killed"),
        stdout: String::from_utf8(output.stdout.clone()).unwrap(),
        stderr: String::from_utf8(output.stderr.clone()).unwrap(),
    }
}

pub(crate) fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The image that tests run in; none, with a word about it, where there is no engine or no image.
pub(crate) fn image() -> Option<&'static str> {
    static IMAGE: OnceLock<Result<String, String>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let engine = Docker::connect().await.map_err(|error| format!("no engine: {error}"))?;
            let chosen = std::env::var("CELLBLOCK_TEST_IMAGE").ok();
            let images = chosen.map_or(vec!["cellblock:base".into(), "cellblock:data".into()], |image| vec![image]);
            for image in images {
                if engine.image(&image).await.is_ok_and(|found| found.is_some()) {
                    return Ok(image);
                }
            }
            Err("no kernel image, and CELLBLOCK_TEST_IMAGE names no other".to_owned())
        })
    });
    match image {
        Ok(image) => Some(image),
        Err(why) => {
            skip(why);
            None
        }
    }
}

#[expect(clippy::print_stderr, reason = "the reader of the test's output must know")]
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CELLBLOCK_REQUIRE_ENGINE").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// A detached session that ends with the test.
#[derive(Debug)]
pub(crate) struct Detached(pub(crate) String);

impl Detached {
    pub(crate) fn start(image: &str, test: &str) -> Self {
        let name = format!("test-cli-{test}-{}", std::process::id());
        let started = run(["session", "start", &name, "--image", image, "--idle-timeout", "2m"]);
        assert_eq!((started.code, started.stdout.trim()), (0, name.as_str()), "{}", started.stderr);
        Self(name)
    }

    pub(crate) fn run(&self, code: &str) -> Ended {
        run(["run", "--session", &self.0, "-c", code])
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = cellblock(["session", "stop", &self.0]).output();
    }
}

/// A terminal, which tmux draws, with one command in it.
#[derive(Debug)]
pub(crate) struct Terminal {
    socket: String,
}

impl Terminal {
    /// None, with a word about it, where there is no tmux.
    pub(crate) fn open(test: &str, directory: &Path, command: &Command) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("no tmux, which draws the terminal");
            return None;
        }
        let terminal = Self { socket: format!("cellblock-{test}-{}", std::process::id()) };
        // Ctrl-C is for the command alone, and not for the shell that waits for it.
        let mut line = format!("trap : INT; XDG_STATE_HOME='{}'", directory.join("state").display());
        for word in std::iter::once(command.get_program()).chain(command.get_args()) {
            line.push_str(&format!(" '{}'", word.to_str().unwrap().replace('\'', "'\\''")));
        }
        // The code stays on the screen, and so does the screen.
        line.push_str("; echo \"ended with $?\"; exec sleep 1000");
        let here = directory.to_str().unwrap();
        terminal.tmux(["new-session", "-d", "-x", "100", "-y", "40", "-c", here, &line]);
        Some(terminal)
    }

    fn tmux<const N: usize>(&self, args: [&str; N]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX").env_remove("NO_COLOR").args(["-L", &self.socket, "-f", "/dev/null"]).args(args);
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types text as it is.
    pub(crate) fn write(&self, text: &str) {
        self.tmux(["send-keys", "-l", "--", text]);
    }

    /// Presses a key by tmux's name for it: `Enter`, `C-c`, `Tab`.
    pub(crate) fn press(&self, key: &str) {
        self.tmux(["send-keys", "--", key]);
    }

    pub(crate) fn enter(&self, line: &str) {
        self.write(line);
        self.press("Enter");
    }

    /// All that was ever printed, as it stands on the screen.
    pub(crate) fn screen(&self) -> String {
        let screen = self.tmux(["capture-pane", "-p", "-S", "-"]);
        screen.trim_end().to_owned()
    }

    /// The screen with its colours.
    pub(crate) fn coloured(&self) -> String {
        self.tmux(["capture-pane", "-p", "-e", "-S", "-"])
    }

    pub(crate) fn title(&self) -> String {
        self.tmux(["display-message", "-p", "#{pane_title}"])
    }

    /// Ends the command as `kill` does.
    pub(crate) fn terminate(&self) {
        let shell = self.tmux(["display-message", "-p", "#{pane_pid}"]);
        let child = Command::new("pgrep").args(["-P", shell.trim()]).output().unwrap();
        let pid = String::from_utf8(child.stdout).unwrap();
        assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
    }

    /// Waits until the screen ends so.
    #[track_caller]
    pub(crate) fn ends_with(&self, end: &str) {
        self.shows(end, |screen| screen.ends_with(end));
    }

    /// Waits until the screen holds this.
    #[track_caller]
    pub(crate) fn contains(&self, part: &str) {
        self.shows(part, |screen| screen.contains(part));
    }

    #[track_caller]
    fn shows(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return;
            }
            assert!(Instant::now() < end, "not in time: {what}\non the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}
