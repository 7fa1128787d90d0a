"""The few Linux calls that Python's standard library has no name for."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def set_dumpable(dumpable: bool) -> None:
    """Not dumpable: processes of the same user can neither trace this one nor open its memory or descriptors."""
    _prctl(PR_SET_DUMPABLE, int(dumpable))


def set_child_subreaper() -> None:
    """Orphaned descendants become children of this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(signal: int) -> None:
    """This process gets `signal` when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal)
