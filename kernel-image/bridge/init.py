"""`bridge init`: PID 1.

A plain `selectors` loop: this process forks kernels, so it must never own a thread, an event loop or a ZeroMQ context.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
import time
import uuid
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from selectors import DefaultSelector
from typing import ClassVar, TypeGuard

from bridge import scripts
from bridge.cells import Cells
from bridge.kernels import CannotStart, Kernels
from bridge.lease import NEVER, Deadline, Lease, Rung
from bridge.links import Links
from bridge.peer import Message, Peer
from bridge.recording import Recording
from bridge.zygote import CHANNEL_COUNT, BecomeKernel, is_listener

VERSION = 1
EXIT_SHUTDOWN = 0
EXIT_INTERNAL = 1
SCRIPT_SECONDS = 5.0
"""How long the processes of a script that got out of hand may take to end."""
MAX_WATCHERS = 8
MAX_PART = 512 * 1024
"""Bytes of a recording in one reply; as base64 they fit into a frame."""


class Refused(Exception):
    """A request that is answered with `ok: false`."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(error)
        self.code = code


class Ended(Exception):
    """The session is over; PID 1 exits with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Bridge:
    """Answers the controller, and does without one what the lease and the deadline ask for."""

    def __init__(self, options: Namespace) -> None:
        self._pid = os.getpid()
        self._session = uuid.uuid4().hex
        self._owned: bool = options.lease == "owned"
        self._lease = Lease(self._owned, options.orphan_grace, options.idle, options.max_life, time.monotonic())
        self._deadline = Deadline()
        self._controller: Peer | None = None
        self._holder: object = None
        """What the controller calls itself: by that it is known again on another connection."""
        self._terminated = False
        self._watchers: set[Peer] = set()
        # Whoever owns a session reads the channels as long as it lives; only who comes later needs more.
        self._recording = None if self._owned or options.stock else Recording()
        self._cells = Cells(self._recording)
        self._selector = DefaultSelector()
        self._kernels = Kernels(options.runtime_dir, options.stock, self._recording, self._selector)
        self._kernels.ended = self._cells.kernel_ended
        self._kernels.tell = self._tell
        self._links = Links(options.runtime_dir, options.host_dir, self._selector)
        self._links.handle = self._handle
        self._links.gone = self._on_gone

    def open(self) -> None:
        """Makes this bridge reachable. What arrives now is answered when `run` runs."""
        signal.signal(signal.SIGTERM, self._on_terminate)
        # The kernel's interrupts are not ours, also where one reaches the whole process group.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._kernels.watch_children()
        self._links.open(time.monotonic())

    def _on_terminate(self, *_: object) -> None:
        self._terminated = True

    def run(self) -> int:
        """Serves until the session is over. Returns the exit code."""
        try:
            while True:
                next_at = self._tick(time.monotonic())
                timeout = None if next_at == NEVER else max(0.0, next_at - time.monotonic())
                for key, events in self._selector.select(timeout):
                    key.data(events)
        except Ended as end:
            self._kernels.end()
            self._links.say_goodbye()
            return end.code

    def _tick(self, now: float) -> float:
        """Does what is due and returns when the next thing is."""
        if self._terminated:
            raise Ended(EXIT_SHUTDOWN)
        self._kernels.tick()
        attended = self._controller is not None
        links_at = self._links.tick(now, attended)
        # Of a stock kernel all that is known is whether a cell was announced.
        counted = self._kernels.busy()
        busy = self._deadline.pending if counted is None else counted
        rung, deadline_at = self._deadline.check(now, attended, busy)
        if rung is Rung.INTERRUPT:
            self._cells.interrupted()
            self._kernels.interrupt()
        elif rung is Rung.RESTART:
            self._cells.restarted()
            self._restart()
        code, lease_at = self._lease.check(now, busy, self._kernels.last_change(now))
        if code is not None:
            raise Ended(code)
        return min(links_at, deadline_at, lease_at)

    def _restart(self) -> None:
        try:
            self._kernels.start([], self._close_in_child)
        except CannotStart as error:
            print(f"bridge: cannot restart the kernel: {error}", file=sys.stderr)
            if self._kernels.current is not None:
                raise Ended(EXIT_INTERNAL) from error  # the last rung: the cell must not go on

    def _close_in_child(self) -> None:
        self._selector.close()
        self._links.close_in_child()
        self._kernels.close_in_child()

    # The controller

    def _on_gone(self, peer: Peer) -> None:
        self._watchers.discard(peer)
        if peer is self._controller:
            self._controller = None
            self._lease.detach(time.monotonic())

    def _tell(self, event: Message) -> None:
        self._deadline.clear()
        if self._controller is not None:
            self._links.tell(self._controller, event)

    def _handle(self, peer: Peer, message: Message) -> None:
        kind = message.get("type")
        if "id" not in message:
            if peer is self._controller:
                self._notice(kind, message)
            return
        refusal = None
        try:
            request = self._requests.get(kind) if isinstance(kind, str) else None
            if request is None:
                raise Refused("unknown", "there is no such request")
            self._check_role(peer, kind, message)
            answer: Message = {"ok": True, **request(self, peer, message)}
        except Refused as error:
            refusal = error
            answer = {"ok": False, "code": error.code, "error": str(error)}
        except OSError as error:
            answer = {"ok": False, "code": "system", "error": str(error)}
        last = refusal is not None and refusal.code in ("held", "version", "busy")
        self._links.answer(peer, {"type": "reply", "id": message["id"], **answer}, last=last)
        if kind == "shutdown" and answer["ok"]:
            raise Ended(EXIT_SHUTDOWN)

    def _check_role(self, peer: Peer, kind: object, message: Message) -> None:
        if peer in self._watchers:
            if kind not in ("hello", "record", "ping") or (kind == "hello" and message.get("watch") is not True):
                raise Refused("watch", "this connection only watches")
        elif peer is not self._controller and kind != "hello":
            raise Refused("hello", "the first request is hello")

    def _notice(self, kind: object, message: Message) -> None:
        if kind == "deadline":
            after, grace = message.get("ms"), message.get("grace_ms", 0)
            if is_duration(after) and is_duration(grace):
                self._deadline.set(time.monotonic(), after / 1000, grace / 1000)
            self._kernels.cell_announced()
        elif kind == "done":
            self._cells.delivered(message.get("msg_id"))
            self._deadline.clear()

    def _on_hello(self, peer: Peer, message: Message) -> Message:
        if message.get("v") != VERSION:
            raise Refused("version", f"this bridge speaks version {VERSION}")
        if message.get("watch") is True and peer is not self._controller:
            self._admit_watcher(peer)
        else:
            self._admit_controller(peer, message.get("holder"))
        kernel = self._kernels.current
        return {
            "v": VERSION,
            "session": self._session,
            "lease": "owned" if self._owned else "detached",
            "kernel": kernel and {"generation": kernel.generation, "key": kernel.key, "busy": self._kernels.busy()},
            "last_exit": self._kernels.last_exit,
            "cell": self._cells.describe(kernel, *self._deadline.left(time.monotonic())),
        }

    def _admit_controller(self, peer: Peer, holder: object) -> None:
        held = self._controller
        if held is not None and held is not peer:
            if holder is None or holder != self._holder:
                raise Refused("held", "another controller holds this session")
            # It has lost that connection, which is not seen here yet.
            self._links.drop(held)
        self._controller = peer
        self._holder = holder
        self._lease.attach()

    def _admit_watcher(self, peer: Peer) -> None:
        if len(self._watchers | {peer}) > MAX_WATCHERS:
            raise Refused("busy", f"{MAX_WATCHERS} connections watch this session already")
        self._watchers.add(peer)

    def _on_start(self, peer: Peer, message: Message) -> Message:
        received = peer.take_descriptors()
        try:
            wanted = message.get("fds", 0)
            if wanted not in (0, CHANNEL_COUNT) or len(received) != wanted:
                raise Refused("fds", f"{len(received)} descriptors came where {wanted!r} were announced")
            if not all(map(is_listener, received)):
                raise Refused("fds", "a descriptor is no listening Unix stream socket")
            kernel = self._kernels.start(received, self._close_in_child)
        except CannotStart as error:
            raise Refused(error.code, str(error)) from error
        finally:
            # Not in the forked kernel, which leaves here by `BecomeKernel` and needs them.
            if os.getpid() == self._pid:
                for descriptor in received:
                    os.close(descriptor)
        return {"generation": kernel.generation, "key": kernel.key}

    def _on_interrupt(self, _peer: Peer, message: Message) -> Message:
        kernel = self._kernels.current
        if kernel is None or message.get("generation") != kernel.generation:
            raise Refused("gone", "that kernel does not run")
        asked = message.get("msg_id")
        taken = self._kernels.interrupt_if_needed(asked if isinstance(asked, str) else None)
        return {} if taken else {"idle": True}

    def _on_record(self, _peer: Peer, message: Message) -> Message:
        if self._recording is None:
            return {"cell": 0, "from": 0, "next": 0, "total": 0, "data": ""}
        cell, start = message.get("cell"), message.get("from")
        part = self._recording.read(cell if is_count(cell) else 0, start if is_count(start) else 0, MAX_PART)
        return {
            "cell": part.extent.number,
            "from": part.start,
            "next": part.start + len(part.data),
            "total": part.extent.total,
            "data": base64.b64encode(part.data).decode(),
        }

    def _on_end_script(self, _peer: Peer, message: Message) -> Message:
        script = message.get("script")
        if not isinstance(script, str) or not script.isalnum():
            raise Refused("script", "a script's id has letters and digits")
        scripts.end(script)
        return {"clean": self._kernels.end_strays(SCRIPT_SECONDS)}

    def _on_nothing(self, _peer: Peer, _message: Message) -> Message:
        return {}

    _requests: ClassVar[dict[str, Callable[[Bridge, Peer, Message], Message]]] = {
        "hello": _on_hello,
        "start": _on_start,
        "interrupt": _on_interrupt,
        "record": _on_record,
        "end_script": _on_end_script,
        "ping": _on_nothing,
        "shutdown": _on_nothing,
    }


def is_duration(value: object) -> TypeGuard[int | float]:
    """Whether this is a finite number of milliseconds; a JSON number can be neither."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12


def is_count(value: object) -> TypeGuard[int]:
    """Whether this is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def options(argv: list[str]) -> Namespace:
    parser = ArgumentParser(prog="bridge init", allow_abbrev=False)
    parser.add_argument("--lease", choices=("owned", "detached"), default="owned")
    parser.add_argument("--orphan-grace", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--idle", type=float, default=3600.0, metavar="SECONDS")
    parser.add_argument("--max-life", type=float, default=86400.0, metavar="SECONDS")
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--runtime-dir", default="/run/cellblock", metavar="DIR")
    parser.add_argument("--host-dir", default="/run/cellblock-host", metavar="DIR")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Runs PID 1; in a forked kernel, runs the kernel."""
    chosen = options(argv)
    os.makedirs(chosen.runtime_dir, mode=0o700, exist_ok=True)
    bridge = Bridge(chosen)
    # The host's answers overlap with the import.
    bridge.open()
    from bridge import linux, preload

    linux.set_dumpable(False)
    if os.getpid() != 1:
        linux.set_child_subreaper()
    preload.prepare_environment()
    preload.import_kernel()
    try:
        return bridge.run()
    except BecomeKernel as forked:
        spec = forked.spec
    except Exception as error:  # noqa: BLE001
        # One line for the container's log. It is not always our own fault: the kernel may set our limits.
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno}" if where else "?"
        print(f"bridge: {type(error).__name__} in {place}: {error}", file=sys.stderr)
        return EXIT_INTERNAL
    from bridge import launcher

    return launcher.main(spec)
