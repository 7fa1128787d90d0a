"""What `bridge files` reads and writes: messages, and the content of files, as frames on one connection to the host."""

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
ROOM = 1 << 20


class HostGone(Exception):
    """The host has closed the connection: nobody waits for an answer."""


class Changed(Exception):
    """The file got shorter while it was read."""


def widen(descriptor: int) -> None:
    """Gives a pipe more room, which spares changes of process."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, ROOM)
    except OSError:
        pass  # no pipe, or the user has too many already


class Wire:
    """A connection by its descriptors: that which is read, and that which is written; for a socket the same."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._unsent = bytearray()
        self._buffer = bytearray()
        self._splices = hasattr(os, "splice") and incoming != outgoing
        widen(incoming)
        widen(outgoing)

    # From the host

    def _read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self._incoming, count - len(parts))
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
                moved = os.splice(self._incoming, file, count)
                if not moved:
                    raise HostGone
                return moved
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._splices = False  # it is no pipe, or the file system cannot
        self._buffer = self._buffer or bytearray(CHUNK)
        with memoryview(self._buffer)[: min(count, CHUNK)] as room:
            moved = os.readv(self._incoming, [room])
            if not moved:
                raise HostGone
            _write(file, room[:moved])
        return moved

    def check_host(self) -> None:
        """Raises `HostGone` if it is: while it is answered it sends nothing."""
        poll = select.poll()
        poll.register(self._incoming, select.POLLIN)
        if poll.poll(0):
            raise HostGone

    # To the host

    def say(self, **message: Any) -> None:
        self._unsent += encode(MESSAGES, DATA, json.dumps(message).encode())
        if len(self._unsent) >= UNSENT:
            self.flush()

    def flush(self) -> None:
        _write(self._outgoing, self._unsent)
        self._unsent.clear()

    def send_content(self, file: int, size: int) -> None:
        """Sends so many bytes of the file. Raises `Changed`, and has told the host, if there are fewer."""
        self.flush()
        left = size
        while left:
            self.check_host()
            length = min(left, CHUNK)
            _write(self._outgoing, HEADER.pack(CONTENT, DATA, length))
            sent = self._send(file, length)
            if sent < length:
                # The frame's length is out already.
                _write(self._outgoing, bytes(length - sent))
                _write(self._outgoing, encode(CONTENT, CLOSE, b"changed"))
                raise Changed
            left -= length
        self._unsent += encode(CONTENT, CLOSE)

    def _send(self, file: int, count: int) -> int:
        sent = 0
        while sent < count:
            try:
                step = os.sendfile(self._outgoing, file, None, count - sent)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                chunk = os.read(file, count - sent)
                _write(self._outgoing, chunk)
                step = len(chunk)
            if not step:
                break
            sent += step
        return sent


def _write(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    view.release()
