"""What PID 1 knows about the recorded cell, beside the recording itself."""

from __future__ import annotations

from bridge.names import name_of
from bridge.peer import Message
from bridge.recording import Recording
from bridge.zygote import Kernel


class Cells:
    """Remembers what happened to the latest cell. Its number, which the kernel can forge, tells only when to forget."""

    def __init__(self, recording: Recording | None) -> None:
        self._recording = recording
        self._ended: tuple[int, Kernel, Message | None] | None = None
        """Number of the cell that was the latest when its kernel ended, that kernel, and its exit if the cell ran."""
        self._delivered: tuple[int, int] = (0, 0)
        """Number or name of the cell."""
        self._rung: tuple[int, str] = (0, "")

    def interrupted(self) -> None:
        """The bridge's own ladder interrupts the cell."""
        self._rung = (self._number(), "interrupt")

    def restarted(self) -> None:
        """The bridge's own ladder restarts the kernel."""
        self._rung = (self._number(), "kernel_restart")

    def delivered(self, msg_id: object) -> None:
        """The controller has the result of the cell of that `msg_id`, or without one of the latest."""
        name = name_of(msg_id) if isinstance(msg_id, str) else 0
        self._delivered = (0 if name else self._number(), name)

    def kernel_ended(self, kernel: Kernel, exit_event: Message) -> None:
        if self._recording is None:
            return
        extent = self._recording.extent()
        if self._ended is None or self._ended[0] != extent.number:
            self._ended = (extent.number, kernel, None if extent.idle else exit_event)

    def describe(self, kernel: Kernel | None, deadline_ms: int | None, grace_ms: int) -> Message | None:
        """The latest cell as `hello` tells it."""
        extent = None if self._recording is None else self._recording.extent()
        if extent is None or extent.number == 0:
            return None
        exit_event = None
        if self._ended is not None and self._ended[0] == extent.number:
            kernel, exit_event = self._ended[1:]
            running = False
        else:
            running = kernel is not None and not extent.idle
        number, name = self._delivered
        return {
            "number": extent.number,
            "state": "running" if running else "ended",
            "delivered": extent.number == number or (name != 0 and extent.name == name),
            "rung": self._rung[1] if self._rung[0] == extent.number else None,
            "deadline_ms": deadline_ms if running else None,
            "grace_ms": grace_ms,
            "exit": exit_event,
            "generation": kernel.generation if kernel else 0,
            "key": kernel.key if kernel else "",
        }

    def _number(self) -> int:
        return 0 if self._recording is None else self._recording.number
