"""`bridge script ID`: runs one script or program with all that it starts, and ends all of it.

Its start is most of what a short script costs, so it imports little: `signal` would bring `enum`, and `json` would
bring `re`, each as dear as the interpreter itself; and what `os` adds to `posix` is a tenth of the whole.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys
import time

from bridge import frames, linux
from bridge.cgroup import OomWatch
from bridge.command import CONTROL, STDERR, STDIN, STDOUT, Command, Refused, Request
from bridge.frames import CLOSE, CREDIT, DATA

CHUNK = 64 * 1024
MAX_UNSENT = 256 * 1024
"""With this much waiting for the host the script's output is left in its pipes."""
CREDIT_STEP = 256 * 1024
LINGER_SECONDS = 0.25
"""How long what a script leaves behind may go on, so that a `tee` at the end of its output can finish."""
SWEEP_SECONDS = 3.0
RESTORED = (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
"""What is ignored here must not be ignored by the script."""

EXIT_PROTOCOL = 76


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
