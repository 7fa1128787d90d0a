"""One signal per interrupt.

An interrupt is asked for on the kernel's control channel first, and of PID 1 when no answer comes: the GIL is held, or
all is slow. Then both could signal, and the second KeyboardInterrupt would hit the user's `except` block or the next
cell. So each side notes in shared memory what it did, and leaves out what the other has done. A signal that the kernel
would ignore is none: PID 1 does not send it, and the kernel signals itself should code run by the time it is asked.
"""

from __future__ import annotations

from bridge.names import name_of

RING = 8
"""So many interrupts of each side are remembered."""
BY_INIT, BY_KERNEL, UNNAMED, UNNAMED_CELL, TAKEN = 0, RING, 2 * RING, 2 * RING + 1, 2 * RING + 2
WORDS = 2 * RING + 3


class Interrupts:
    """The notes. The kernel's code can change them, which costs only its own interrupts."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._noted = 0
        self._taken = (0, 0)

    @property
    def taken(self) -> bool:
        """Whether the kernel takes interrupts now. One that makes no such note, as a stock kernel, never seems to."""
        return bool(self._words[TAKEN])

    @taken.setter
    def taken(self, taken: bool) -> None:
        self._words[TAKEN] = taken

    def _note(self, ring: int, name: int) -> None:
        self._words[ring + self._noted % RING] = name
        self._noted += 1

    def _noted_in(self, ring: int, name: int) -> bool:
        return name in self._words[ring : ring + RING].tolist()

    def init_signals(self, msg_id: str | None, cell: int) -> bool:
        """In PID 1: whether to signal, for the `interrupt_request` of that id, or one that was not named."""
        if msg_id is None:
            same = self._words[UNNAMED_CELL] == cell
            self._words[UNNAMED] = min(self._words[UNNAMED], RING) + 1 if same else 1
            self._words[UNNAMED_CELL] = cell
            return True
        name = name_of(msg_id)
        if self._noted_in(BY_KERNEL, name):
            return False
        self._note(BY_INIT, name)
        return True

    def kernel_signals(self, msg_id: str, cell: int) -> bool:
        """In the kernel, as it handles that `interrupt_request`: whether to signal."""
        name = name_of(msg_id)
        self._note(BY_KERNEL, name)
        if self._noted_in(BY_INIT, name):
            return False
        taken = self._taken[1] if self._taken[0] == cell else 0
        if self._words[UNNAMED_CELL] == cell and self._words[UNNAMED] > taken:
            self._taken = (cell, taken + 1)
            return False
        return True
