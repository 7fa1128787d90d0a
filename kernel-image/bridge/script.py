"""`bridge script ID`: runs one script or program with all that it starts, and ends all of it.

Its start is most of what a short script costs, so it imports little: `signal` would bring `enum`, and `json` would
bring `re`, each as dear as the interpreter itself; and what `os` adds to `posix` is a tenth of the whole.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import posix
import select
import stat
import sys
import time

from bridge import frames, linux
from bridge.cgroup import OomWatch
from bridge.frames import CLOSE, CREDIT, DATA

CONTROL, STDOUT, STDERR, STDIN, TEXT = range(5)
"""The streams: the request and what becomes of it, the script's own three, and the script itself."""

CHUNK = 64 * 1024
MAX_UNSENT = 256 * 1024
"""With this much waiting for the host the script's output is left in its pipes."""
CREDIT_STEP = 256 * 1024
LINGER_SECONDS = 0.25
"""How long what a script leaves behind may go on, so that a `tee` at the end of its output can finish."""
SWEEP_SECONDS = 3.0
RESTORED = (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
"""What is ignored here must not be ignored by the script."""
SHELLS = (b"sh", b"bash", b"dash", b"ash", b"ksh", b"zsh")

EXIT_PROTOCOL = 76


def path_prefix(script: str) -> str:
    """How the path of the script's file begins. Each may write there, but only its own."""
    return f"/tmp/cellblock-{script}"


class Refused(Exception):
    """The script cannot be run, and nothing of it has run."""

    def __init__(self, code: str, number: int = 0, detail: bytes = b"") -> None:
        super().__init__(code)
        self.code = code
        self.number = number
        self.detail = detail


class Request:
    """What the host wants run: fields `name NUL value NUL`, which can hold whatever a command line can."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._fields = bytearray()
        self._path: bytes | None = None
        self._file = -1
        self.complete = False

    def take(self, stream: int, kind: int, payload: bytes) -> None:
        if stream == CONTROL and kind == DATA and self._file < 0:
            self._fields += payload
        elif stream == TEXT and kind == DATA:
            self._write(payload)
        elif stream == TEXT and kind == CLOSE:
            if self._file >= 0:
                posix.close(self._file)
            self.complete = True
        else:
            raise frames.BrokenFrame(f"a frame of kind {kind} on stream {stream} before the script was complete")

    def parse(self) -> dict[bytes, list[bytes]]:
        parts = bytes(self._fields).split(b"\0")
        fields: dict[bytes, list[bytes]] = {}
        for name, value in zip(parts[::2], parts[1::2], strict=False):
            fields.setdefault(name, []).append(value)
        return fields

    def _write(self, text: bytes) -> None:
        try:
            if self._path is None:
                suffix = self.parse().get(b"suffix", [b""])[0]
                self._path = path_prefix(self._script).encode() + suffix
                self._file = posix.open(
                    self._path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW, 0o600
                )
            while text:
                text = text[posix.write(self._file, text) :]
        except OSError as error:
            raise Refused("write", error.errno or 0) from error

    @property
    def text_path(self) -> bytes | None:
        return self._path

    def remove(self) -> None:
        if self._path is not None:
            try:
                posix.unlink(self._path)
            except OSError:
                pass


class Command:
    """A program that is there and can be run."""

    def __init__(self, fields: dict[bytes, list[bytes]], text_path: bytes | None) -> None:
        self.timeout = float(fields[b"timeout"][0])
        self.grace = float(fields[b"grace"][0])
        self.has_stdin = b"stdin" in fields
        self.environment = dict(posix.environ)
        for entry in fields.get(b"env", []):
            name, _, value = entry.partition(b"=")
            self.environment[name] = value
        self.argv = list(fields.get(b"run", []))
        file = text_path
        if b"file" in fields:
            file = _absolute(fields[b"file"][0])
        elif b"suffix" in fields and file is None:
            raise Refused("empty")
        # Names are looked up where the script will be, the file's before.
        if b"cwd" in fields:
            try:
                posix.chdir(fields[b"cwd"][0])
            except OSError as error:
                raise Refused("cwd", error.errno or 0) from error
        interpreter = self.argv[0].rpartition(b"/")[2] if self.argv else None
        if file is not None:
            self.first_line = _first_line(file, interpreter)
            self.argv.append(file)
        else:
            self.first_line = b""
        self.argv += fields.get(b"arg", [])
        if not self.argv:
            raise Refused("empty")
        self.is_file = interpreter is None
        self.program = self._find(self.argv[0])

    def _find(self, name: bytes) -> bytes:
        if b"/" in name:
            return name
        found = errno.ENOENT
        for directory in self.environment.get(b"PATH", b"/bin:/usr/bin").split(b":"):
            path = directory + b"/" + name if directory else name
            try:
                if stat.S_ISREG(posix.stat(path).st_mode):
                    if posix.access(path, posix.X_OK):
                        return path
                    found = errno.EACCES
            except OSError:
                pass
        raise Refused("program", found)

    def refusal(self, number: int) -> Refused:
        """Why the system would not run it."""
        if number == errno.EAGAIN or number == errno.ENOMEM:
            return Refused("fork", number)
        if self.is_file and number == errno.ENOENT:
            return Refused("first-line", number, self.first_line)
        return Refused("file" if self.is_file else "program", number)


def _absolute(path: bytes) -> bytes:
    return path if path.startswith(b"/") else posix.getcwdb() + b"/" + path


def _first_line(path: bytes, interpreter: bytes | None) -> bytes:
    """The script's `#!` line, empty if it has none."""
    try:
        # Neither a fifo nor a device is waited for.
        file = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.EACCES and interpreter is None and posix.access(path, posix.X_OK):
            return b""  # a program that may be run and not read
        raise Refused("file", error.errno or 0) from error
    try:
        mode = posix.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise Refused("file", errno.EISDIR)
        if not stat.S_ISREG(mode):
            raise Refused("file", errno.ENOTSUP)
        head = posix.read(file, 256)
    finally:
        posix.close(file)
    if not head.startswith(b"#!"):
        return b""
    line = head.partition(b"\n")[0]
    if line.endswith(b"\r") and (interpreter is None or interpreter in SHELLS):
        raise Refused("line-ending", 0, line)
    return line


class Keeper:
    """Runs the script below itself, so that nothing it starts can slip away, and passes its streams on."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._decoder = frames.Decoder()
        self._unsent = bytearray()
        self._ended_by_host = False
        self._host_gone = False
        self._stdin = -1
        self._stdin_unsent = bytearray()
        self._stdin_closed = False
        self._stdin_taken = 0
        self._outputs: dict[int, int] = {}
        self._main = 0
        self._status: int | None = None
        self._reason = ""
        self._woken, self._wake = posix.pipe()

    def run(self) -> int:
        request = Request(self._script)
        try:
            try:
                if not self._receive(request):
                    return 0
                command = Command(request.parse(), request.text_path)
                memory = OomWatch()
                begun = time.monotonic()
                self._start(command)
            except Refused as refused:
                self._say("refused", code=refused.code, errno=refused.number, detail=refused.detail)
                self._flush()
                return 0
            clean = self._attend(command, begun)
            self._drain()
            status = self._status
            if status is None or posix.WIFSIGNALED(status):
                ended = {"signal": posix.WTERMSIG(status) if status is not None else int(_signal.SIGKILL)}
            else:
                ended = {"exit": posix.WEXITSTATUS(status)}
            taken = int((time.monotonic() - begun) * 1e6)
            # Before its end is told: whoever hears of that finds no trace of it.
            request.remove()
            self._say("end", reason=self._reason, clean=int(clean), oom=int(memory.has_struck()), us=taken, **ended)
            self._flush()
        except frames.BrokenFrame as error:
            print(f"bridge script: {error}", file=sys.stderr)
            return EXIT_PROTOCOL
        except BrokenPipeError:
            pass
        finally:
            if self._main and self._reap():
                self._sweep()
            request.remove()
        return 0

    # Before the start

    def _receive(self, request: Request) -> bool:
        """Whether the whole request has come; it has not if the host went away before."""
        while not request.complete:
            chunk = posix.read(0, CHUNK)
            if not chunk:
                return False
            for stream, kind, payload in self._decoder.feed(chunk):
                if request.complete:
                    self._take(stream, kind, payload)
                else:
                    request.take(stream, kind, payload)
        return True

    def _start(self, command: Command) -> None:
        stdout, stdout_in = posix.pipe()
        stderr, stderr_in = posix.pipe()
        if command.has_stdin:
            stdin_out, self._stdin = posix.pipe()
        else:
            stdin_out = posix.open("/dev/null", posix.O_RDONLY)
            self._stdin_closed = True
        for descriptor in (0, 1, self._woken, self._wake, stdout, stderr):
            posix.set_blocking(descriptor, False)
        if self._stdin >= 0:
            posix.set_blocking(self._stdin, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in RESTORED:
            _signal.signal(number, _signal.SIG_IGN)
        linux.set_child_subreaper()
        # Where memory is short the script goes before the kernel, and this process does not. Opened while it can be.
        score = -1
        try:
            score = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY)
            posix.write(score, b"1000")
        except OSError:
            pass
        linux.set_dumpable(False)
        # Before it is so, since it may stop us as the first thing that it does. A refusal may still follow.
        self._say("started")
        self._write()
        try:
            self._main = posix.posix_spawn(
                command.program,
                command.argv,
                command.environment,
                file_actions=[
                    (posix.POSIX_SPAWN_DUP2, stdin_out, 0),
                    (posix.POSIX_SPAWN_DUP2, stdout_in, 1),
                    (posix.POSIX_SPAWN_DUP2, stderr_in, 2),
                ],
                setsid=True,
                setsigdef=RESTORED,
            )
        except OSError as error:
            raise command.refusal(error.errno or 0) from error
        finally:
            for descriptor in (stdin_out, stdout_in, stderr_in):
                posix.close(descriptor)
            if score >= 0:
                posix.pwrite(score, b"0", 0)
                posix.close(score)
        self._outputs = {stdout: STDOUT, stderr: STDERR}
        # All of its input, which may be none, can have come already.
        self._feed()

    # While it runs

    def _attend(self, command: Command, begun: float) -> bool:
        """Passes streams on until no process of the script is left. Returns whether that is so."""
        deadline = begun + command.timeout
        linger_until: float | None = None
        kill_at: float | None = None
        while self._reap():
            now = time.monotonic()
            if self._status is not None and linger_until is None:
                linger_until = now + LINGER_SECONDS
            if kill_at is None:
                if self._status is None and now >= deadline:
                    self._reason = "timeout"
                elif self._ended_by_host or self._host_gone:
                    self._reason = "interrupt"
                if self._reason or (linger_until is not None and now >= linger_until):
                    self._signal_all(_signal.SIGTERM)
                    kill_at = now + command.grace
            elif now >= kill_at:
                return self._sweep()
            due = kill_at or linger_until or deadline
            self._turn(max(0.0, due - now))
        return True

    def _turn(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if not self._ended_by_host:
            poll.register(0, select.POLLIN)
        if not self._host_gone:
            poll.register(1, select.POLLOUT if self._unsent else 0)
        if len(self._unsent) < MAX_UNSENT:
            for descriptor in self._outputs:
                poll.register(descriptor, select.POLLIN)
        if self._stdin >= 0 and self._stdin_unsent:
            poll.register(self._stdin, select.POLLOUT)
        for descriptor, events in poll.poll(seconds * 1000 + 1):
            if descriptor == 0:
                self._read_host()
            elif descriptor == 1:
                self._host_gone |= bool(events & (select.POLLERR | select.POLLHUP))
            elif descriptor == self._woken:
                posix.read(self._woken, 4096)
            elif descriptor == self._stdin:
                self._feed()
            elif descriptor in self._outputs:
                self._pass_on(descriptor)
        self._write()

    def _read_host(self) -> None:
        try:
            chunk = posix.read(0, CHUNK)
        except BlockingIOError:
            return
        # The host wants it ended, or is gone.
        self._ended_by_host |= not chunk
        for stream, kind, payload in self._decoder.feed(chunk):
            self._take(stream, kind, payload)

    def _take(self, stream: int, kind: int, payload: bytes) -> None:
        if stream == STDIN and kind == DATA:
            self._stdin_unsent += payload
            if len(self._stdin_unsent) > frames.CREDIT_AT_START:
                raise frames.BrokenFrame("stdin was sent past its credit")
            self._feed()
        elif stream == STDIN and kind == CLOSE:
            self._stdin_closed = True
            self._feed()
        else:
            raise frames.BrokenFrame(f"a frame of kind {kind} on stream {stream}")

    def _feed(self) -> None:
        """Gives the script its input as it takes it."""
        before = len(self._stdin_unsent)
        try:
            while self._stdin >= 0 and self._stdin_unsent:
                del self._stdin_unsent[: posix.write(self._stdin, self._stdin_unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._stdin_unsent.clear()  # the script reads no more
        self._stdin_taken += before - len(self._stdin_unsent)
        if self._stdin_taken >= CREDIT_STEP:
            self._unsent += frames.encode(STDIN, CREDIT, frames.U32.pack(self._stdin_taken))
            self._stdin_taken = 0
        if self._stdin >= 0 and self._stdin_closed and not self._stdin_unsent:
            posix.close(self._stdin)
            self._stdin = -1

    def _pass_on(self, descriptor: int) -> bool:
        """Takes output of the script. Returns whether there may be more."""
        try:
            chunk = posix.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            del self._outputs[descriptor]
            posix.close(descriptor)
            return False
        if not self._host_gone:
            self._unsent += frames.encode(self._outputs[descriptor], DATA, chunk)
        return True

    # Towards the host

    def _say(self, what: str, **fields: str | int | bytes) -> None:
        payload = b"type\0" + what.encode() + b"\0"
        for name, value in fields.items():
            payload += name.encode() + b"\0" + (value if isinstance(value, bytes) else str(value).encode()) + b"\0"
        self._unsent += frames.encode(CONTROL, DATA, payload)

    def _write(self) -> None:
        try:
            while self._unsent and not self._host_gone:
                del self._unsent[: posix.write(1, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._host_gone = True

    def _flush(self) -> None:
        """Waits until the host has taken all, or has gone."""
        posix.set_blocking(1, True)
        self._write()

    def _drain(self) -> None:
        """Takes what is left in the pipes. They may still be open where the script has passed them on."""
        for descriptor in list(self._outputs):
            while self._pass_on(descriptor):
                if len(self._unsent) >= MAX_UNSENT:
                    self._flush()

    # The script's processes

    def _reap(self) -> bool:
        """Collects what has ended. Returns whether any process of the script is left."""
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                self._status = status

    def _signal_all(self, number: int) -> None:
        from bridge.sweep import children

        todo = children(posix.getpid())
        while todo:
            pid = todo.pop()
            todo += children(pid)
            for sent in (number, _signal.SIGCONT):
                try:
                    posix.kill(pid, sent)
                except OSError:
                    pass

    def _sweep(self) -> bool:
        from bridge.sweep import sweep

        def wait(seconds: float) -> None:
            select.select([self._woken], [], [], seconds)
            try:
                posix.read(self._woken, 4096)
            except BlockingIOError:
                pass

        return sweep(self._reap, wait, seconds=SWEEP_SECONDS)


def main(argv: list[str]) -> int:
    if argv[:1] == ["--runtime-dir"]:
        argv = argv[2:]
    if len(argv) != 1 or not argv[0].isalnum():
        print("usage: bridge script [--runtime-dir DIR] ID", file=sys.stderr)
        return 64
    return Keeper(argv[0]).run()
