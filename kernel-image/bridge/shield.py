"""Steps of the main thread that an interrupt does not divide: it comes after them."""

from __future__ import annotations

import threading
from signal import default_int_handler
from types import FrameType


class Shield:
    """Held off with `with`. What may take long must not be done inside."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets what the last cell left, should a signal handler of its own have come between."""
        self._thread = threading.get_ident()
        self._depth = 0
        self._pending = False

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT while user code runs."""
        if self._depth:
            self._pending = True
        else:
            default_int_handler(number, frame)

    def holds(self) -> bool:
        """Whether this thread is inside."""
        return self._depth > 0 and threading.get_ident() == self._thread

    def __enter__(self) -> None:
        # Interrupts come to the main thread alone.
        if threading.get_ident() == self._thread:
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() == self._thread:
            self._depth -= 1
            if self._pending and not self._depth:
                self._pending = False
                raise KeyboardInterrupt


shield = Shield()
"""There is one main thread."""
