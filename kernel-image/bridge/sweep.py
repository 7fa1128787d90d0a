"""Ending processes with all that they started, however they try to slip away.

The caller is PID 1 or a child subreaper, so whatever loses its parent becomes the caller's child: having no child left
is the proof that nothing is left.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection


def children(pid: int) -> list[int]:
    """The direct children of a process, of all its threads. Empty if it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except FileNotFoundError:
            if os.path.isdir(f"/proc/{pid}/task/{thread}"):
                return _children_by_scan(pid)  # a kernel without this file
        except OSError:
            continue
    return found


def _children_by_scan(parent: int) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(int(name)) == parent]


def parent_of(pid: int) -> int | None:
    """The parent of a process as this process sees it: 0 if it is outside our pid namespace, `None` if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the process's name, which may hold spaces and parentheses.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _freeze(pids: Collection[int], frozen: set[int]) -> None:
    """Stops the processes and all their descendants, parents first, so that none of them can start another."""
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if pid not in frozen:
            frozen.add(pid)
            _send(pid, signal.SIGSTOP)
            todo += children(pid)


def _freeze_all(roots: Callable[[], Collection[int]], end: float) -> set[int]:
    """Stops the processes that `roots` finds, and all below them, until there are no more of them or the time is up."""
    frozen: set[int] = set()
    known = -1
    while len(frozen) > known and time.monotonic() < end:
        known = len(frozen)
        # A child seen before may have had children since; a stopped one has no more.
        for pid in list(frozen):
            _freeze(children(pid), frozen)
        _freeze(roots(), frozen)
    return frozen


def end_tree(root: int, seconds: float) -> None:
    """Kills a process that is not below this one, with all its descendants. What had left it before is not found."""
    for pid in _freeze_all(lambda: [root], time.monotonic() + seconds):
        _send(pid, signal.SIGKILL)


def sweep(
    reap: Callable[[], bool], wait: Callable[[float], None], spare: Collection[int] = (), seconds: float = 10.0
) -> bool:
    """Ends all children of this process but those in `spare`, with everything below them.

    `reap` collects every child that has ended and returns whether any child is left; `wait` returns when a child has
    ended or the time is up. Returns whether all is clean.
    """
    end = time.monotonic() + seconds

    def mine() -> list[int]:
        return [pid for pid in children(os.getpid()) if pid not in spare]

    while reap():
        seen = children(os.getpid())
        if seen and all(pid in spare for pid in seen):
            return True
        # What cannot be seen, for want of a descriptor, is there all the same.
        if not seen or time.monotonic() >= end:
            return False
        for pid in _freeze_all(mine, end):
            _send(pid, signal.SIGKILL)
        wait(0.05)
    return True
