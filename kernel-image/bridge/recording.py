"""The recording: what the latest cell said on IOPub, in memory that every kernel shares with PID 1.

It outlives the kernel. It holds a header page, the head (the first records of the cell) and the tail (a ring of its
latest ones). A record is a message as its wire frames, and offsets count the bytes of all records of the cell.

No lock is shared. The writer lets go of what it overwrites before it does, and announces what it wrote after; a reader
copies and looks again. Each word is stored at once, and is seen long before the other interpreter's next step.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from struct import Struct

SIZE = 8 << 20
HEADER = 4096
HEAD = 2 << 20
TAIL = SIZE - HEADER - HEAD

RECORD = Struct(">II")  # length of the record with these words, number of frames
FRAME = Struct(">I")  # length of the frame that follows

NUMBER = 0
"""Word: the cell's number, 0 before the first. It chooses one of two slots, so that storing it begins the next cell."""
SLOT_WORDS = 8
TOTAL, HEAD_END, TAIL_START, IDLE, NAME = range(5)
"""Words of a slot: bytes recorded, where the head ends, where the tail starts, whether the cell has ended, its name."""
OPEN = (1 << 64) - 1
"""`HEAD_END` while the head still takes records."""
BEYOND = 1 << 53
"""No honest number comes here, and every reader of JSON takes what is not above."""

ATTEMPTS = 4


def slot(number: int) -> int:
    """The first word of the slot of a cell."""
    return SLOT_WORDS * (1 + number % 2)


@dataclass(frozen=True)
class Extent:
    """Which bytes of a cell's records are there: `[0, head_end)` and `[tail_start, total)`."""

    number: int
    total: int
    head_end: int
    tail_start: int
    idle: bool
    name: int


@dataclass(frozen=True)
class Part:
    """Bytes of a cell's records, and where they begin."""

    extent: Extent
    start: int
    data: bytes


class Recording:
    """The shared memory. The kernel can write anything into it, so a reader takes no number as it is."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, SIZE)
        self.words = memoryview(self.memory)[:HEADER].cast("Q")

    @property
    def number(self) -> int:
        return min(self.words[NUMBER], BEYOND)

    def extent(self) -> Extent:
        """What there is now. In this order: what the writer has closed or let go of since is never taken for kept."""
        number = self.number
        at = slot(number)
        total = min(self.words[at + TOTAL], BEYOND) if number else 0
        head_end = min(self.words[at + HEAD_END], total, HEAD)
        tail_start = min(max(self.words[at + TAIL_START], head_end, total - TAIL), total)
        return Extent(number, total, head_end, tail_start, self.words[at + IDLE] != 0, self.words[at + NAME])

    def read(self, cell: int, start: int, limit: int) -> Part:
        """What is there of `[start, …)`, or of another cell from its beginning if `cell` is not the recorded one."""
        extent = self.extent()
        for _ in range(ATTEMPTS):
            asked = min(start, extent.total) if cell == extent.number else 0
            if extent.head_end <= asked < extent.tail_start:
                asked = extent.tail_start
            whole = extent.head_end == extent.tail_start
            end = extent.total if whole or asked >= extent.tail_start else extent.head_end
            data = self._copy(extent.head_end, asked, min(end, asked + limit))
            now = self.extent()
            if now.number == extent.number:
                kept = now.tail_start
                if asked >= extent.head_end and kept <= asked:
                    return Part(extent, asked, data)
                if asked < extent.head_end:
                    # Of the tail too much may be gone; the head stays what it is.
                    return Part(extent, asked, data if kept <= extent.head_end else data[: extent.head_end - asked])
            extent = now
        start = min(start, extent.total) if cell == extent.number else 0
        return Part(extent, start, b"")

    def _copy(self, head_end: int, start: int, end: int) -> bytes:
        split = min(max(start, head_end), end)
        head = self.memory[HEADER + start : HEADER + split] if start < split else b""
        if split == end:
            return head
        ring = HEADER + HEAD
        at = (split - head_end) % TAIL
        first = self.memory[ring + at : ring + min(at + end - split, TAIL)]
        return head + first + self.memory[ring : ring + end - split - len(first)]
