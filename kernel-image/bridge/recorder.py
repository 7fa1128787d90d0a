"""Writing the recording: the kernel's side of it.

The exception of a user's signal handler may end any step here. Each leaves the recording as it was or as it becomes,
and the next record repeats what is missing.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from jupyter_client.session import DELIM

from bridge import recording
from bridge.names import name_of
from bridge.recording import FRAME, HEAD, HEADER, RECORD, TAIL, Recording


def _object(packed: Any) -> dict[str, Any]:
    try:
        value = json.loads(bytes(packed))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Recorder:
    """Records one cell at a time, beginning with its busy status. The caller sees to it that calls do not overlap."""

    def __init__(self, target: Recording) -> None:
        self._memory = target.memory
        self._words = target.words
        self._parent: tuple[bytes, dict[str, Any]] = (b"", {})
        self._cell = b""
        """Parent header of the recorded cell; empty while this kernel has not begun one."""
        self._slot = 0
        self._total = 0
        self._head_end = 0
        self._head_open = False
        self._tail: deque[int] = deque()
        """Where the records of the tail start."""

    def record(self, message: list[Any]) -> None:
        """Takes a message as its wire frames. One that does not belong to any cell is left out."""
        try:
            header = message.index(DELIM) + 2
            packed = bytes(message[header + 1])
            if packed != self._parent[0]:
                self._parent = (packed, _object(packed))
            parent = self._parent[1]
            if parent.get("msg_type") != "execute_request":
                return
            status = message[header + 3] if bytes(message[0]).endswith(b"status") else b""
            if b'"busy"' in status:
                self._begin(packed, parent)
            if not self._cell:
                return
            self._append(message)
            if b'"idle"' in status and packed == self._cell:
                self._words[self._slot + recording.IDLE] = 1
        except Exception:  # noqa: BLE001
            return  # what cannot be recorded can still be sent

    def _begin(self, packed: bytes, parent: dict[str, Any]) -> None:
        number = self._words[recording.NUMBER] % recording.BEYOND + 1
        at = recording.slot(number)
        self._words[at + recording.TOTAL] = 0
        self._words[at + recording.HEAD_END] = recording.OPEN
        self._words[at + recording.TAIL_START] = 0
        self._words[at + recording.IDLE] = 0
        self._words[at + recording.NAME] = name_of(str(parent.get("msg_id")))
        self._slot = at
        self._total = 0
        self._head_open = True
        self._tail.clear()
        self._cell = packed
        self._words[recording.NUMBER] = number

    def _append(self, message: list[Any]) -> None:
        sizes = list(map(size_of, message))
        length = RECORD.size + FRAME.size * len(sizes) + sum(sizes)
        start = self._total
        end = start + length
        if self._head_open and end <= HEAD:
            self._memory[HEADER + start : HEADER + end] = record(message, sizes, length)
            self._set_total(end)
            return
        if self._head_open:
            self._head_end = start
            self._head_open = False
        fits = length <= TAIL
        while self._tail and (not fits or end - self._tail[0] > TAIL):
            self._tail.popleft()
        kept = self._tail[0] if self._tail else start if fits else end
        self._words[self._slot + recording.TAIL_START] = kept
        self._words[self._slot + recording.HEAD_END] = self._head_end
        if fits:
            self._copy_to_ring((start - self._head_end) % TAIL, record(message, sizes, length))
            self._tail.append(start)
        self._set_total(end)

    def _copy_to_ring(self, at: int, data: bytes) -> None:
        ring = HEADER + HEAD
        first = min(len(data), TAIL - at)
        self._memory[ring + at : ring + at + first] = data[:first]
        self._memory[ring : ring + len(data) - first] = data[first:]

    def _set_total(self, total: int) -> None:
        self._total = total
        self._words[self._slot + recording.TOTAL] = total


def size_of(part: Any) -> int:
    return len(part) if isinstance(part, bytes) else memoryview(part).nbytes


def record(message: list[Any], sizes: list[int], length: int) -> bytes:
    pieces: list[Any] = [RECORD.pack(length, len(sizes))] * (1 + 2 * len(sizes))
    pieces[1::2] = list(map(FRAME.pack, sizes))
    pieces[2::2] = message
    return b"".join(pieces)
