"""Removing trees of any depth and size, without following a link and in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable

from bridge.beneath import open_in

PAUSE_EVERY = 4096
MAX_DEPTH = 32


def remove_tree(name: bytes, parent: int, pause: Callable[[], None]) -> None:
    """Removes a directory with all that is in it. `pause` is called now and then, and may raise."""
    top = open_in(name, parent)
    try:
        _empty(top, top, 0, pause)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _empty(directory: int, top: int, depth: int, pause: Callable[[], None]) -> None:
    # What a scan shows of a directory that changes is not defined: it is empty once a scan finds nothing.
    while _remove_found(directory, top, depth, pause):
        pass


def _remove_found(directory: int, top: int, depth: int, pause: Callable[[], None]) -> bool:
    """Removes what one scan finds. Returns whether it found anything."""
    found = 0
    with os.scandir(directory) as scan:
        for found, entry in enumerate(scan, 1):
            if found % PAUSE_EVERY == 1:
                pause()
            try:
                if entry.is_dir(follow_symlinks=False):
                    _remove_directory(os.fsencode(entry.name), directory, top, depth, pause)
                else:
                    os.unlink(entry.name, dir_fd=directory)
            except FileNotFoundError:
                pass  # somebody else has removed it
    return found > 0


def _remove_directory(name: bytes, parent: int, top: int, depth: int, pause: Callable[[], None]) -> None:
    if depth == MAX_DEPTH:
        # Deeper ones are moved up: neither descriptors nor the stack are spent on what a loop of mkdir made.
        os.rename(name, b".cellblock-" + os.urandom(8).hex().encode(), src_dir_fd=parent, dst_dir_fd=top)
        return
    below = open_in(name, parent)
    try:
        _empty(below, top, depth + 1, pause)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=parent)
