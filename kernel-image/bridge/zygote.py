"""Forking kernels from PID 1, which has imported all that they need."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from bridge import keeper, linux
from bridge.page import BusyPage
from bridge.recording import Recording

FORK_TIMEOUT_MS = 5000
BACKLOG = 64
CHANNEL_COUNT = 5
HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class ForkFailed(Exception):
    """No kernel could be forked."""


@dataclass
class Spec:
    """All that a forked kernel is told."""

    generation: int
    key: str
    prefix: str
    """Path of its own listeners, up to `-<n>`."""
    listeners: list[list[int]]
    """Per channel the listening descriptors: the host's, if it passed any, then its own."""
    page: BusyPage
    recording: Recording | None
    stock: bool


class BecomeKernel(BaseException):
    """Raised in the forked process, up to `main`, so that the kernel runs on a stack of its own."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec


@dataclass
class Kernel:
    """A kernel as PID 1 knows it."""

    generation: int
    key: str
    page: BusyPage
    keeper_pid: int
    pid: int
    report: int
    oom_kills: int
    keeper_ended: bool = False
    exit_status: int | None = None

    def read_report(self) -> None:
        """Takes the kernel's wait status, if its keeper has reported it."""
        try:
            report = os.read(self.report, keeper.REPORT.size)
        except BlockingIOError:
            return
        if len(report) == keeper.REPORT.size:
            self.exit_status = keeper.REPORT.unpack(report)[1]

    def close(self) -> None:
        os.close(self.report)
        self.page.close()


def listen(prefix: str, made: list[int]) -> None:
    """Makes the kernel's own listeners. Here, so that a connection made before the kernel is up simply waits."""
    for number in range(1, CHANNEL_COUNT + 1):
        path = f"{prefix}-{number}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            sock.bind(path)
            sock.listen(BACKLOG)
            made.append(sock.detach())


def is_listener(descriptor: int) -> bool:
    """Whether this is a listening Unix stream socket."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as sock:
            listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            return sock.family == socket.AF_UNIX and sock.type == socket.SOCK_STREAM and bool(listening)
    except OSError:
        return False


def fork(spec: Spec, close_bridge: Callable[[], None], oom_kills: int) -> Kernel:
    """Forks keeper and kernel. Raises `BecomeKernel` in the latter."""
    reading, writing = os.pipe()
    # A signal between the fork and the new process's own handlers would run ours in it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        keeper_pid = os.fork()
        if keeper_pid == 0:
            _be_keeper(spec, reading, writing, close_bridge)
    except OSError as error:
        os.close(reading)
        raise ForkFailed(f"cannot fork: {os.strerror(error.errno or 0)}") from error
    finally:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    kernel = Kernel(spec.generation, spec.key, spec.page, keeper_pid, 0, reading, oom_kills)
    readable = select.poll()
    readable.register(reading, select.POLLIN)
    answered = readable.poll(FORK_TIMEOUT_MS)
    report = os.read(reading, keeper.REPORT.size) if answered else b""
    os.set_blocking(reading, False)
    if len(report) < keeper.REPORT.size:
        os.close(reading)
        raise ForkFailed("the keeper was killed" if answered else "the keeper does not get to fork")
    what, value = keeper.REPORT.unpack(report)
    if what != keeper.FORKED:
        os.close(reading)
        raise ForkFailed(f"the keeper cannot fork: {os.strerror(value)}")
    kernel.pid = value
    return kernel


def _be_keeper(spec: Spec, reading: int, writing: int, close_bridge: Callable[[], None]) -> None:
    """In the forked process. Leaves only as the kernel, by `BecomeKernel`."""
    try:
        close_bridge()
        os.close(reading)
        for number in HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        if keeper.fork_kept(writing, [fd for per_channel in spec.listeners for fd in per_channel]):
            linux.set_parent_death_signal(signal.SIGKILL)
            raise BecomeKernel(spec)
    except Exception:  # noqa: BLE001
        os._exit(70)
    os._exit(0)
