"""When the container ends by itself, and when a cell that nobody watches is stopped.

Both classes are told the time and say what is due; they own no timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

EXIT_ORPHANED = 10
EXIT_IDLE = 11
EXIT_MAX_LIFE = 12

NO_CONTROLLER_AT_ALL = 60.0
"""A bridge that no controller reached within this time is orphaned; until then it is not idle."""

NEVER = float("inf")


@dataclass
class Lease:
    """The three ways in which a session runs out."""

    owned: bool
    orphan_grace: float
    idle: float
    max_life: float
    born: float

    def __post_init__(self) -> None:
        self._attached = False
        self._reached = False
        self._left_at = self.born

    def attach(self) -> None:
        self._attached = True
        self._reached = True

    def detach(self, now: float) -> None:
        self._attached = False
        self._left_at = now

    def check(self, now: float, busy: bool, last_change: float) -> tuple[int | None, float]:
        """Returns the exit code if the session is over, and when to look again."""
        end = self.born + self.max_life
        if now >= end:
            return EXIT_MAX_LIFE, now
        if self._attached:
            return None, end
        if self.owned or not self._reached:
            grace = self.orphan_grace if self._reached else max(self.orphan_grace, NO_CONTROLLER_AT_ALL)
            due = self._left_at + grace
            return (EXIT_ORPHANED, now) if now >= due else (None, min(due, end))
        if busy:
            # Nobody tells us when the cell ends; what is due after it cannot be due sooner than this.
            return None, min(now + self.idle, end)
        due = max(self._left_at, last_change) + self.idle
        return (EXIT_IDLE, now) if now >= due else (None, min(due, end))


class Rung(Enum):
    """What an overdue cell gets."""

    INTERRUPT = "interrupt"
    RESTART = "restart"


class Deadline:
    """The running cell's deadline. Enforced here only while no controller is attached to do it."""

    def __init__(self) -> None:
        self._at = NEVER
        self._grace = 0.0
        self._interrupted = False

    def set(self, now: float, after: float, grace: float) -> None:
        self._at = now + after
        self._grace = grace
        self._interrupted = False

    def clear(self) -> None:
        self._at = NEVER

    def left(self, now: float) -> tuple[int | None, int]:
        """Milliseconds until the next rung is due, if there is a deadline, and those of its grace."""
        left = int(max(0.0, self._at - now) * 1000) if self.pending else None
        return left, int(self._grace * 1000)

    @property
    def pending(self) -> bool:
        return self._at != NEVER

    def check(self, now: float, attended: bool, busy: bool) -> tuple[Rung | None, float]:
        """Returns the rung that is due now, and when to look again."""
        if attended or not self.pending:
            return None, NEVER
        if now < self._at:
            return None, self._at
        if not busy:
            self.clear()
            return None, NEVER
        if not self._interrupted:
            self._interrupted = True
            self._at = now + self._grace
            return Rung.INTERRUPT, self._at
        self.clear()
        return Rung.RESTART, NEVER
