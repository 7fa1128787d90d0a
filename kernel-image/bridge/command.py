"""What `bridge script` is asked to run: the request as it comes, and the program that is found for it."""

from __future__ import annotations

import errno
import posix
import stat

from bridge import frames
from bridge.frames import CLOSE, DATA

CONTROL, STDOUT, STDERR, STDIN, TEXT = range(5)
"""The streams: the request and what becomes of it, the script's own three, and the script itself."""

SHELLS = (b"sh", b"bash", b"dash", b"ash", b"ksh", b"zsh")


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
