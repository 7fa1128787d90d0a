"""The host's end of the relay link: channels appear as Unix sockets that any Jupyter client can use."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import subprocess
import threading
from pathlib import Path

from support import CHANNELS, HEADER, Control

DATA, OPEN, CLOSE, CREDIT = range(4)
CHUNK = 64 * 1024


class Stream:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.credit = 1 << 20
        self.consumed = 0
        self.unsent = bytearray()


class RelayHost:
    """Runs a relay and copies between it, `control` and the sockets `<directory>/h-<n>`."""

    def __init__(self, command: list[str], directory: str) -> None:
        self.prefix = f"{directory}/h"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self._relay_stdin = self.process.stdin
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        ours, theirs = socket.socketpair()
        self.control = Control(ours)
        self._selector = selectors.DefaultSelector()
        self._streams: dict[int, Stream] = {0: Stream(theirs)}
        self._next = 1
        self._buffer = bytearray()
        self._selector.register(self._out, selectors.EVENT_READ, self._read_relay)
        self._selector.register(theirs, selectors.EVENT_READ, lambda: self._read_stream(0))
        for number, name in enumerate(CHANNELS, start=1):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{self.prefix}-{number}")
            listener.listen()
            self._selector.register(
                listener,
                selectors.EVENT_READ,
                lambda listener=listener, name=name: self._accept(listener, name),
            )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    key.data()
        except (EOFError, BrokenPipeError):
            for stream in self._streams.values():
                stream.sock.close()

    def _write(self, stream: int, kind: int, payload: bytes = b"") -> None:
        data = HEADER.pack(stream, kind, len(payload)) + payload
        while data:
            data = data[os.write(self._in, data) :]

    def _accept(self, listener: socket.socket, name: str) -> None:
        number, self._next = self._next, self._next + 1
        self._streams[number] = Stream(listener.accept()[0])
        self._write(number, OPEN, name.encode())
        self._watch(number)

    def _watch(self, number: int) -> None:
        self._selector.register(self._streams[number].sock, selectors.EVENT_READ, lambda: self._read_stream(number))

    def _read_stream(self, number: int) -> None:
        stream = self._streams[number]
        limit = CHUNK if number == 0 else min(CHUNK, stream.credit)
        try:
            data = stream.sock.recv(limit)
        except OSError:
            data = b""
        if data and number:
            stream.credit -= len(data)
            self._write(number, DATA, data)
            if stream.credit == 0:
                self._selector.unregister(stream.sock)
        elif data:
            self._raw(data)
        else:
            self._selector.unregister(stream.sock)
            if number:
                self._write(number, CLOSE)
                del self._streams[number]
            else:
                # Not by its number, which Python would close once more, long after it has become another's.
                self._relay_stdin.close()
                raise EOFError

    def _raw(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._in, data) :]

    def _read_relay(self) -> None:
        data = os.read(self._out, CHUNK)
        if not data:
            raise EOFError
        self._buffer += data
        while len(self._buffer) >= 6:
            number, kind, length = HEADER.unpack_from(self._buffer)
            if len(self._buffer) < 6 + length:
                return
            payload = bytes(self._buffer[6 : 6 + length])
            del self._buffer[: 6 + length]
            self._take(number, kind, payload)

    def _take(self, number: int, kind: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if number == 0:
            stream.sock.sendall(HEADER.pack(0, kind, length := len(payload)) + payload[:length])
        elif kind == DATA:
            stream.sock.sendall(payload)
            stream.consumed += len(payload)
            if stream.consumed >= 256 * 1024:
                self._write(number, CREDIT, struct.pack(">I", stream.consumed))
                stream.consumed = 0
        elif kind == CREDIT:
            if stream.credit == 0:
                self._watch(number)
            stream.credit += struct.unpack(">I", payload)[0]
        elif kind == CLOSE:
            if stream.credit:
                self._selector.unregister(stream.sock)
            stream.sock.close()
            del self._streams[number]

    def close(self) -> None:
        self.control.close()
        self.process.wait(10)
        self.thread.join(10)
        for number in range(1, 6):
            Path(f"{self.prefix}-{number}").unlink(missing_ok=True)
