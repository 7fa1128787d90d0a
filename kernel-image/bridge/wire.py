"""What `bridge files` reads and writes: messages, and the content of files, as frames on stdin and stdout."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
from typing import Any

from bridge.frames import CLOSE, DATA, HEADER, MAX_PAYLOAD, BrokenFrame, encode

Message = dict[str, Any]

STDIN, STDOUT = 0, 1
MESSAGES, CONTENT = 0, 1  # streams
MAX_MESSAGE = 64 * 1024
CHUNK = 256 * 1024
UNSENT = 64 * 1024
PIPE = 1 << 20


class HostGone(Exception):
    """The host has closed the connection: nobody waits for an answer."""


class Changed(Exception):
    """The file got shorter while it was read."""


def widen(descriptor: int) -> None:
    """Gives a pipe more room, which spares changes of process."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE)
    except OSError:
        pass  # no pipe, or the user has too many already


class Wire:
    def __init__(self) -> None:
        self._unsent = bytearray()
        self._splices = hasattr(os, "splice")
        widen(STDIN)
        widen(STDOUT)

    # From the host

    def _read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(STDIN, count - len(parts))
            if not part:
                raise HostGone
            parts += part
        return bytes(parts)

    def _header(self) -> tuple[int, int, int]:
        stream, kind, length = HEADER.unpack(self._read(HEADER.size))
        if length > MAX_PAYLOAD or kind not in (DATA, CLOSE):
            raise BrokenFrame(f"a frame of kind {kind} and {length} bytes")
        return stream, kind, length

    def receive(self) -> Message:
        stream, kind, length = self._header()
        if (stream, kind) != (MESSAGES, DATA) or length > MAX_MESSAGE:
            raise BrokenFrame("a message was expected")
        message = json.loads(self._read(length))
        if not isinstance(message, dict):
            raise BrokenFrame("a message is a JSON object")
        return message

    def receive_content(self, file: int) -> None:
        """Writes what the host sends until it says that this is all."""
        while True:
            stream, kind, length = self._header()
            if stream != CONTENT:
                raise BrokenFrame("the content of a file was expected")
            if kind == CLOSE:
                if length:
                    raise HostGone
                return
            while length:
                length -= self._move(file, length)

    def _move(self, file: int, count: int) -> int:
        if self._splices:
            try:
                moved = os.splice(STDIN, file, count)
                if not moved:
                    raise HostGone
                return moved
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._splices = False  # stdin is no pipe, or the file system cannot
        chunk = os.read(STDIN, min(count, CHUNK))
        if not chunk:
            raise HostGone
        _write(file, chunk)
        return len(chunk)

    def check_host(self) -> None:
        """Raises `HostGone` if it is: while it is answered it sends nothing."""
        poll = select.poll()
        poll.register(STDIN, select.POLLIN)
        if poll.poll(0):
            raise HostGone

    # To the host

    def say(self, **message: Any) -> None:
        self._unsent += encode(MESSAGES, DATA, json.dumps(message).encode())
        if len(self._unsent) >= UNSENT:
            self.flush()

    def flush(self) -> None:
        _write(STDOUT, self._unsent)
        self._unsent.clear()

    def send_content(self, file: int, size: int) -> None:
        """Sends so many bytes of the file. Raises `Changed`, and has told the host, if there are fewer."""
        self.flush()
        left = size
        while left:
            self.check_host()
            length = min(left, CHUNK)
            _write(STDOUT, HEADER.pack(CONTENT, DATA, length))
            sent = self._send(file, length)
            if sent < length:
                # The frame's length is out already.
                _write(STDOUT, bytes(length - sent))
                _write(STDOUT, encode(CONTENT, CLOSE, b"changed"))
                raise Changed
            left -= length
        self._unsent += encode(CONTENT, CLOSE)

    def _send(self, file: int, count: int) -> int:
        sent = 0
        while sent < count:
            try:
                step = os.sendfile(STDOUT, file, None, count - sent)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                chunk = os.read(file, count - sent)
                _write(STDOUT, chunk)
                step = len(chunk)
            if not step:
                break
            sent += step
        return sent


def _write(descriptor: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    view.release()
