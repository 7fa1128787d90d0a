"""The few Linux calls that Python's standard library has no name for."""

from __future__ import annotations

import _ctypes
import posix

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

# Below `ctypes`, whose import would cost a script's start more than all that is ours.
_address = _ctypes.dlsym(_ctypes.dlopen(None, posix.RTLD_NOW), "prctl")  # type: ignore[arg-type]


def _prctl(option: int, value: int) -> None:
    if _ctypes.call_function(_address, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) failed")


def set_dumpable(dumpable: bool) -> None:
    """Not dumpable: processes of the same user can neither trace this one nor open its memory or descriptors."""
    _prctl(PR_SET_DUMPABLE, int(dumpable))


def set_child_subreaper() -> None:
    """Orphaned descendants become children of this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(signal: int) -> None:
    """This process gets `signal` when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal)
