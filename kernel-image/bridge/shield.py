"""Steps of the main thread that an interrupt does not divide, all that comes before a cell's code among them."""

from __future__ import annotations

import threading
from signal import default_int_handler
from types import FrameType


class Shield:
    """Held off with `with`. What may take long must not be done inside."""

    def __init__(self) -> None:
        self.interrupts = 0
        """Counts those that have reached the main thread."""
        self.reset()

    def reset(self) -> None:
        """Forgets what the last cell left, should a signal handler of its own have come between."""
        self._thread = threading.get_ident()
        self._depth = 0
        self._held = False
        self._pending = False

    def hold(self) -> None:
        """Holds interrupts off until `release`: before a cell's code IPython swallows what is raised."""
        self.reset()
        self._held = True

    def release(self) -> None:
        """Raises what was held off."""
        if threading.get_ident() == self._thread:
            self._held = False
            self._raise_pending()

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT while interrupts are taken."""
        self.interrupts += 1
        self._pending = self._held or self._depth > 0
        if not self._pending:
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
            self._raise_pending()

    def _raise_pending(self) -> None:
        if self._pending and not self._held and not self._depth:
            self._pending = False
            raise KeyboardInterrupt


shield = Shield()
"""There is one main thread."""
