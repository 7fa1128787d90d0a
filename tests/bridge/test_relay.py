"""The relay link, with a host's end written for the test and Jupyter's own client above it."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from relay_host import CLOSE, CREDIT, DATA, OPEN, RelayHost
from support import BRIDGE, HEADER, PATIENCE, Bridge, Cell, run, state_of, wait_until


def command(bridge: Bridge) -> list[str]:
    wait_until("bridge.sock", (bridge.runtime_dir / "bridge.sock").exists)
    return [sys.executable, "-IS", str(BRIDGE), "relay", "--runtime-dir", str(bridge.runtime_dir)]


@pytest.fixture
def host(bridge: Bridge) -> Iterator[RelayHost]:
    host = RelayHost(command(bridge), bridge.directory.name)
    yield host
    host.close()


class Raw:
    """A relay whose frames the test writes itself."""

    def __init__(self, bridge: Bridge) -> None:
        self.process = subprocess.Popen(command(bridge), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, stream: int, kind: int, payload: bytes = b"") -> None:
        self.stdin.write(HEADER.pack(stream, kind, len(payload)) + payload)
        self.stdin.flush()

    def receive(self) -> tuple[int, int, bytes]:
        stream, kind, length = HEADER.unpack(self.stdout.read(HEADER.size))
        return stream, kind, self.stdout.read(length)

    def end(self) -> int:
        self.stdin.close()
        return self.process.wait(10)


@pytest.fixture
def start_raw(bridge: Bridge) -> Iterator[Callable[[], Raw]]:
    started: list[Raw] = []

    def start() -> Raw:
        started.append(Raw(bridge))
        return started[-1]

    yield start
    for raw in started:
        raw.process.kill()
        raw.process.wait()
        raw.stdin.close()
        raw.stdout.close()


def test_a_session_over_the_relay(bridge: Bridge, host: RelayHost) -> None:
    assert host.control.hello()["ok"]
    client = bridge.client(host.control.request("start"), prefix=host.prefix)
    run(client, "x = 20")
    assert run(client, "x + 1").result() == "21"
    size = 30_000_000
    assert len(run(client, f"print('a' * {size})").text()) == size + 1
    assert run(client, f"len({'b' * 5_000_000!r})").result() == "5000000"
    second = bridge.client(host.control.request("start"), prefix=host.prefix)
    assert host.control.event("exit")["generation"] == 1
    assert run(second, "1").result() == "1"


def test_a_stalled_iopub_does_not_hold_up_control(bridge: Bridge, host: RelayHost) -> None:
    host.control.hello()
    started = host.control.request("start")
    client = bridge.client(started, prefix=host.prefix)
    Cell(client, "while True: print('x' * 10_000)")
    # Nobody reads IOPub here; ZeroMQ's own buffers fill up and then everything behind them.
    client.control_channel.send(client.session.msg("interrupt_request", {}))
    assert client.control_channel.get_msg(timeout=10)["msg_type"] == "interrupt_reply"
    assert host.control.request("ping")["ok"]


def test_shutdown_is_answered_before_the_end(bridge: Bridge, host: RelayHost) -> None:
    host.control.hello()
    assert host.control.request("shutdown")["ok"]
    assert host.control.receive() is None
    assert bridge.exit_code() == 0
    assert host.process.wait(10) == 0


def test_the_relay_ends_with_its_stdin(start_raw: Callable[[], Raw]) -> None:
    assert start_raw().end() == 0


def test_the_relay_ends_with_its_stdout(start_raw: Callable[[], Raw]) -> None:
    raw = start_raw()
    raw.stdout.close()
    assert raw.process.wait(10) == 0


def test_the_end_of_the_relay_is_the_end_of_its_controller(bridge: Bridge, start_raw: Callable[[], Raw]) -> None:
    raw = start_raw()
    raw.send(0, DATA, b'{"type": "hello", "id": 1, "v": 1}')
    assert b'"ok": true' in raw.receive()[2]
    raw.process.kill()
    wait_until("the session to be free", lambda: bridge.connect().hello()["ok"])


def test_a_relay_that_reaches_nobody_says_why() -> None:
    argv = [sys.executable, "-IS", str(BRIDGE), "relay", "--runtime-dir", "/dev/null"]
    ended = subprocess.run(argv, stdin=subprocess.PIPE, capture_output=True, timeout=PATIENCE, text=True)
    assert ended.returncode == 69
    assert ended.stderr == "bridge relay: cannot connect to /dev/null/bridge.sock: Not a directory\n"


@pytest.mark.parametrize("name", [b"shell", b"debug", b"\xff", b""])
def test_a_channel_that_cannot_be_opened_is_closed_with_a_reason(start_raw: Callable[[], Raw], name: bytes) -> None:
    raw = start_raw()
    raw.send(9, OPEN, name)
    stream, kind, reason = raw.receive()
    assert (stream, kind) == (9, CLOSE)
    assert reason.startswith(b"cannot connect")
    assert raw.end() == 0


def test_a_kernel_whose_queue_of_callers_is_full_does_not_hold_the_relay_up(
    bridge: Bridge, start_raw: Callable[[], Raw]
) -> None:
    control = bridge.controller()
    kernel = int(run(bridge.client(control.request("start")), "import os; os.getpid()").result())
    raw = start_raw()
    os.kill(kernel, signal.SIGSTOP)
    wait_until("the kernel to stop", lambda: state_of(kernel) == "T")
    callers = []
    try:
        while True:
            callers.append(socket.socket(socket.AF_UNIX))
            callers[-1].setblocking(False)
            callers[-1].connect(str(bridge.runtime_dir / "k1-1"))
    except BlockingIOError:
        pass
    begun = time.monotonic()
    raw.send(9, OPEN, b"shell")
    stream, kind, reason = raw.receive()
    assert time.monotonic() - begun < PATIENCE
    assert (stream, kind) == (9, CLOSE)
    assert reason.startswith(b"cannot connect")
    for caller in callers:
        caller.close()


@pytest.mark.parametrize(
    "broken",
    [
        HEADER.pack(3, 0, 1 << 30),
        HEADER.pack(3, 9, 0),
        HEADER.pack(1, OPEN, 5) + b"shell" + HEADER.pack(1, OPEN, 5) + b"shell",
        HEADER.pack(1, OPEN, 5) + b"shell" + HEADER.pack(1, CREDIT, 1) + b"x",
        HEADER.pack(1, OPEN, 5) + b"shell" + (HEADER.pack(1, DATA, 1 << 20) + bytes(1 << 20)) * 3,
    ],
)
def test_a_broken_protocol_ends_the_relay(bridge: Bridge, start_raw: Callable[[], Raw], broken: bytes) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    # Stopped, it takes nothing, so that nothing earns new credit.
    kernel = int(run(client, "import os; os.getpid()").result())
    Cell(client, "os.kill(os.getpid(), 19)")
    wait_until("the kernel to stop", lambda: state_of(kernel) == "T")
    raw = start_raw()
    try:
        raw.stdin.write(broken)
        raw.stdin.flush()
    except BrokenPipeError:
        pass
    assert raw.process.wait(10) == 76


def test_the_relay_sends_no_more_than_its_credit(bridge: Bridge, start_raw: Callable[[], Raw]) -> None:
    raw = start_raw()
    raw.send(0, DATA, b'{"type": "hello", "id": 1, "v": 1}')
    raw.receive()
    raw.send(0, DATA, b'{"type": "start", "id": 2}')
    client = bridge.client(json.loads(raw.receive()[2]))
    raw.send(4, OPEN, b"iopub")
    # ZMTP 3.0, NULL mechanism, as a SUB; then a subscription to everything.
    raw.send(4, DATA, b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    total = 0
    # libzmq sends its greeting in two parts, and closes a connection on which READY comes before the second.
    while total < 64:
        total += len(raw.receive()[2])
    raw.send(4, DATA, b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB")
    raw.send(4, DATA, b"\x00\x01\x01")
    Cell(client, "while True: print('x' * 10_000)")
    while total < 1 << 20:
        stream, kind, payload = raw.receive()
        assert (stream, kind) == (4, DATA), (total, payload)
        total += len(payload)
    assert total == 1 << 20
    # Not a byte more until there is credit for it; a request on stream 0 still passes.
    raw.send(0, DATA, b'{"type": "ping", "id": 3}')
    assert json.loads(raw.receive()[2]) == {"type": "reply", "id": 3, "ok": True}
    raw.send(4, CREDIT, struct.pack(">I", 5))
    assert len(raw.receive()[2]) == 5
