"""Wakes the main thread from a blocking call that began just as a signal came.

The interpreter notes a signal, and runs its handler between two steps of the main thread, or when the call that blocks
it is ended by the signal. One that comes after the last step and before the call is noted while the call goes on. That
is no rare chance: what gives the control thread its turn to signal is that the main thread lets the GIL go for such a
call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from signal import SIGURG, getsignal, pthread_kill, signal
from types import FrameType

WAKE = SIGURG
"""Has no meaning where nobody asks for it."""
DELAYS = (0.001, 0.004, 0.02, 0.1, 0.4)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """The call ends all the same, and goes on once the handlers of what was noted have run."""


def prepare() -> None:
    """To be called in the main thread."""
    signal(WAKE, _nothing)


async def wake_until(handled: Callable[[], bool]) -> None:
    """Wakes the main thread until the handler of the signal that was sent to it has run."""
    main = threading.main_thread().ident
    for delay in DELAYS:
        await asyncio.sleep(delay)
        if handled() or main is None or getsignal(WAKE) is not _nothing:
            return
        pthread_kill(main, WAKE)
