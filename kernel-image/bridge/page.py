"""A page of memory shared with the kernel, from which PID 1 sees without being woken whether a cell runs."""

from __future__ import annotations

import mmap
import time
from struct import Struct

from bridge.interrupts import WORDS, Interrupts

_FIELDS = Struct("=QQd")  # executes started, executes finished, when the last one finished
_NOTES = 1024


class BusyPage:
    """Made before a kernel is forked; written by the kernel, read by PID 1.

    The kernel's code can write what it likes here. It decides only about this session's own idle end and deadlines,
    and maximum life bounds both.
    """

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._map)[_NOTES : _NOTES + 8 * WORDS].cast("Q")
        self.interrupts = Interrupts(self._words)
        self._started = 0
        self._finished = 0

    def cell_started(self) -> None:
        self._started += 1
        self._write(time.monotonic())

    def cell_finished(self) -> None:
        self._finished += 1
        self._write(time.monotonic())

    def _write(self, now: float) -> None:
        _FIELDS.pack_into(self._map, 0, self._started, self._finished, now)

    @property
    def started(self) -> int:
        return int(_FIELDS.unpack_from(self._map)[0])

    def busy(self) -> bool:
        started, finished, _ = _FIELDS.unpack_from(self._map)
        return bool(started != finished)

    def last_change(self, now: float) -> float:
        """When a cell last started or finished, never later than `now`; 0 if none did yet."""
        at = _FIELDS.unpack_from(self._map)[2]
        return float(at) if 0.0 <= at <= now else now

    def close(self) -> None:
        self._words.release()
        self._map.close()
