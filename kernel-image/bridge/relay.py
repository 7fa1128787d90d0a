"""`bridge relay`: control connection and channels multiplexed over stdin and stdout.

Its start is on the way to a session's first cell, so it imports little.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

from bridge import frames
from bridge.frames import CHANNELS, CLOSE, CREDIT, DATA, OPEN

STDIN, STDOUT = 0, 1
CHUNK = 64 * 1024
MAX_UNSENT = 1 << 20
"""With this much waiting for stdout nothing more is read."""
CREDIT_STEP = 256 * 1024
CONNECT_SECONDS = 10.0
LINGER_SECONDS = 1.0

EXIT_UNREACHABLE = 69
EXIT_PROTOCOL = 76


class Channel:
    """One open stream: a connection to a channel of the kernel."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.unsent = bytearray()
        self.may_send = frames.CREDIT_AT_START  # to the host
        self.may_receive = frames.CREDIT_AT_START  # from the host
        self.taken = 0  # by the kernel, and not yet given back as credit


class Relay:
    def __init__(self, runtime_dir: str, control: socket.socket) -> None:
        self._runtime_dir = runtime_dir
        self._control = control
        self._control_unsent = bytearray()
        self._channels: dict[int, Channel] = {}
        self._from_host = frames.Decoder()
        self._from_init = frames.Decoder()
        self._unsent = bytearray()

    def run(self) -> int:
        for descriptor in (STDIN, STDOUT):
            os.set_blocking(descriptor, False)
        self._control.setblocking(False)
        try:
            while self._turn():
                pass
        except frames.BrokenFrame as error:
            print(f"bridge relay: {error}", file=sys.stderr)
            return EXIT_PROTOCOL
        except BrokenPipeError:
            pass
        return 0

    def _turn(self) -> bool:
        """Waits for something to do and does it. Returns whether to go on."""
        poll = select.poll()
        roomy = len(self._unsent) < MAX_UNSENT
        # Input is always read: it carries the credit that lets us write, and ends when the controller does.
        poll.register(STDIN, select.POLLIN)
        poll.register(STDOUT, select.POLLOUT if self._unsent else 0)
        poll.register(self._control, (select.POLLIN if roomy else 0) | (select.POLLOUT if self._control_unsent else 0))
        by_fd = {}
        for number, channel in self._channels.items():
            wanted = select.POLLOUT if channel.unsent else 0
            if roomy and channel.may_send > 0:
                wanted |= select.POLLIN
            if wanted:
                by_fd[channel.sock.fileno()] = number
                poll.register(channel.sock, wanted)
        for descriptor, events in poll.poll():
            if descriptor == STDOUT:
                if events & (select.POLLERR | select.POLLHUP):
                    return False
                self._write_out()
            elif descriptor == STDIN:
                if not self._read_in():
                    return False
            elif descriptor == self._control.fileno():
                if events & select.POLLOUT:
                    _send(self._control, self._control_unsent)
                if events & ~select.POLLOUT and not self._read_control():
                    self._linger()
                    return False
            else:
                self._serve(by_fd[descriptor], events)
        self._write_out()
        return True

    # Towards the host

    def _write_out(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(STDOUT, self._unsent)]
        except BlockingIOError:
            pass

    def _linger(self) -> None:
        """PID 1 is done: what it said last goes out before this process ends."""
        end = time.monotonic() + LINGER_SECONDS
        self._write_out()
        while self._unsent and (left := end - time.monotonic()) > 0:
            select.select([], [STDOUT], [], left)
            self._write_out()

    def _put(self, stream: int, kind: int, payload: bytes = b"") -> None:
        self._unsent += frames.encode(stream, kind, payload)

    def _read_control(self) -> bool:
        try:
            chunk = self._control.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for frame in self._from_init.feed(chunk):
            self._put(*frame)
        return bool(chunk)

    def _read_channel(self, number: int, channel: Channel) -> None:
        try:
            chunk = channel.sock.recv(min(CHUNK, channel.may_send))
        except BlockingIOError:
            return
        except OSError as error:
            self._close(number, str(error))
            return
        if not chunk:
            self._close(number)
            return
        channel.may_send -= len(chunk)
        self._put(number, DATA, chunk)

    def _close(self, number: int, reason: str = "") -> None:
        self._channels.pop(number).sock.close()
        self._put(number, CLOSE, reason.encode()[: frames.MAX_PAYLOAD])

    # Towards the kernel

    def _read_in(self) -> bool:
        try:
            chunk = os.read(STDIN, CHUNK)
        except BlockingIOError:
            return True
        for stream, kind, payload in self._from_host.feed(chunk):
            self._take(stream, kind, payload)
        return bool(chunk)

    def _take(self, stream: int, kind: int, payload: bytes) -> None:
        if stream == 0:
            self._control_unsent += frames.encode(stream, kind, payload)
            _send(self._control, self._control_unsent)
        elif kind == OPEN:
            self._open(stream, payload)
        elif (channel := self._channels.get(stream)) is None:
            return  # closed on this side, and the host does not know yet
        elif kind == CLOSE:
            self._channels.pop(stream).sock.close()
        elif kind == CREDIT:
            if len(payload) != frames.U32.size:
                raise frames.BrokenFrame("credit is a u32")
            channel.may_send += frames.U32.unpack(payload)[0]
        else:
            channel.may_receive -= len(payload)
            if channel.may_receive < 0:
                raise frames.BrokenFrame(f"stream {stream} sent past its credit")
            channel.unsent += payload
            self._pass_on(stream, channel)

    def _open(self, stream: int, name: bytes) -> None:
        if stream in self._channels:
            raise frames.BrokenFrame(f"stream {stream} is open already")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A kernel whose queue of callers is full must not hold the other streams up.
        sock.setblocking(False)
        try:
            sock.connect(self._channel_path(name.decode()))
        except (OSError, ValueError, KeyError) as error:
            sock.close()
            self._put(stream, CLOSE, f"cannot connect to {name!r}: {error}".encode()[: frames.MAX_PAYLOAD])
            return
        self._channels[stream] = Channel(sock)

    def _channel_path(self, name: str) -> str:
        number = CHANNELS[name]
        generations = [
            int(entry[1:].partition("-")[0])
            for entry in os.listdir(self._runtime_dir)
            if entry.startswith("k") and entry.endswith(f"-{number}")
        ]
        if not generations:
            raise ValueError("no kernel runs")
        return os.path.join(self._runtime_dir, f"k{max(generations)}-{number}")

    def _serve(self, number: int, events: int) -> None:
        channel = self._channels.get(number)
        if channel is not None and events & select.POLLOUT:
            self._pass_on(number, channel)
            channel = self._channels.get(number)
        if channel is not None and events & ~select.POLLOUT and channel.may_send > 0:
            self._read_channel(number, channel)

    def _pass_on(self, number: int, channel: Channel) -> None:
        before = len(channel.unsent)
        try:
            _send(channel.sock, channel.unsent)
        except OSError as error:
            self._close(number, str(error))
            return
        channel.taken += before - len(channel.unsent)
        if channel.taken >= CREDIT_STEP:
            channel.may_receive += channel.taken
            self._put(number, CREDIT, frames.U32.pack(channel.taken))
            channel.taken = 0


def _send(sock: socket.socket, unsent: bytearray) -> None:
    try:
        while unsent:
            del unsent[: sock.send(unsent)]
    except BlockingIOError:
        pass


def connect(path: str) -> socket.socket:
    """Connects to PID 1, which may be about to make its socket. Raises the last error when the time is up."""
    end = time.monotonic() + CONNECT_SECONDS
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
            return sock
        except OSError:
            sock.close()
            if time.monotonic() >= end:
                raise
            time.sleep(0.002)  # nothing announces that a socket appears


def main(argv: list[str]) -> int:
    if argv[:1] == ["--runtime-dir"] and len(argv) == 2:
        runtime_dir = argv[1]
    elif argv:
        print("usage: bridge relay [--runtime-dir DIR]", file=sys.stderr)
        return 64
    else:
        runtime_dir = "/run/cellblock"
    path = os.path.join(runtime_dir, "bridge.sock")
    try:
        control = connect(path)
    except OSError as error:
        print(f"bridge relay: cannot connect to {path}: {error.strerror}", file=sys.stderr)
        return EXIT_UNREACHABLE
    return Relay(runtime_dir, control).run()
