"""Locks that the exception of a signal handler, as an interrupt is one, cannot leave taken.

It comes between any two steps of the main thread. `with` on a lock of C is safe, but knows no timeout; `acquire` before
`try` is not, nor is what the standard library builds of Python on top of locks (`Condition`, `Event`).
"""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Lock(Protocol):
    """What has these two in C."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...

    def release(self) -> None: ...


def locked(lock: Lock, timeout: float, action: Callable[[], Result]) -> Result | None:
    """Does something with the lock, or nothing if it is not free within the time."""
    held: list[bool] = []
    try:
        # Taking it and knowing it is one step of the interpreter.
        held.extend(map(lock.acquire, (timeout != 0,), (timeout if timeout else -1.0,)))
        return action() if held[0] else None
    finally:
        if held and held[0]:
            lock.release()


class Gate:
    """Threads wait here until they are let through."""

    def __init__(self) -> None:
        self._waiting: deque[_thread.LockType] = deque()

    def wait(self, timeout: float, opened: Callable[[], bool]) -> None:
        """Returns when `open` is called or the time is up, and at once if it is `opened` already."""
        turn = _thread.allocate_lock()
        turn.acquire()
        self._waiting.append(turn)
        if not opened():
            turn.acquire(timeout=timeout)

    def open(self) -> None:
        while self._waiting:
            self._waiting.popleft().release()
