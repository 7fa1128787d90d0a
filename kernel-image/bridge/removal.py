"""Removing trees of any depth and size, without following a link and in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice

from bridge.beneath import open_in

BATCH = 4096
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
    while True:
        pause()
        # In batches: what a scan shows of a directory that changes is not defined, and may not fit into memory.
        with os.scandir(directory) as scan:
            batch = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in islice(scan, BATCH)]
        if not batch:
            return
        for name, is_directory in batch:
            if not is_directory:
                os.unlink(name, dir_fd=directory)
            elif depth == MAX_DEPTH:
                # Deeper ones are moved up: neither descriptors nor the stack are spent on what a loop of mkdir made.
                os.rename(name, b".cellblock-" + os.urandom(8).hex().encode(), src_dir_fd=directory, dst_dir_fd=top)
            else:
                below = open_in(name, directory)
                try:
                    _empty(below, top, depth + 1, pause)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=directory)
