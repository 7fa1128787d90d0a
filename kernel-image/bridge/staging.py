"""Uploads: under a temporary name until they are whole, and gone if they never are."""

from __future__ import annotations

import os

from bridge.beneath import Refused, components, directory_of, kind_of, look, open_in, unmake
from bridge.frames import BrokenFrame
from bridge.removal import remove_tree
from bridge.wire import Message, Wire

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


PREFIX = ".cellblock-"


def put(wire: Wire, parts: list[bytes], temporary: object) -> None:
    """Receives a file or a tree and puts it where the path says."""
    if not parts:
        raise Refused("directory", "the work directory itself cannot be replaced")
    if not isinstance(temporary, str) or not temporary.startswith(PREFIX) or "/" in temporary:
        raise BrokenFrame("a temporary name was expected")
    staged = os.fsencode(temporary)
    first = wire.receive()
    if first.get("type") != "entry":
        raise BrokenFrame("an entry was expected")
    made: list[list[bytes]] = []
    try:
        with directory_of(parts[:-1], made) as parent:
            _check_target(parts[-1], parent, first)
            try:
                _receive(wire, first, staged, parent)
                os.rename(staged, parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                _discard(staged, parent)
                raise
    except BaseException:
        unmake(made)
        raise


def _check_target(name: bytes, parent: int, first: Message) -> None:
    """Before the content comes. The renaming holds to the same, whatever happens until then."""
    try:
        kind = kind_of(look(name, parent).st_mode)
    except FileNotFoundError:
        return
    if first.get("kind") == "file":
        if kind == "directory":
            raise Refused("directory", "a file cannot take the place of a directory")
    elif kind != "directory":
        raise Refused("exists", "a directory cannot take the place of what is there")
    else:
        with directory_of([name], top=parent) as there, os.scandir(there) as entries:
            if next(entries, None) is not None:
                raise Refused("exists", "the directory is not empty")


def _receive(wire: Wire, first: Message, staged: bytes, parent: int) -> None:
    _create(wire, first, staged, parent)
    if first.get("kind") != "directory":
        _end(wire.receive())
        return
    top = open_in(staged, parent)
    try:
        message = wire.receive()
        while message.get("type") == "entry":
            above = components(message.get("path"))[:-1]
            with directory_of(above, top=top) as directory:
                # What follows each other is mostly in one directory.
                while message.get("type") == "entry" and (path := components(message.get("path")))[:-1] == above:
                    _create(wire, message, path[-1], directory)
                    message = wire.receive()
        _end(message)
    finally:
        os.close(top)


def _end(message: Message) -> None:
    if message.get("type") != "end":
        raise BrokenFrame("an entry or the end was expected")


def _create(wire: Wire, entry: Message, name: bytes, directory: int) -> None:
    if entry.get("kind") == "directory":
        os.mkdir(name, dir_fd=directory)
        return
    file = os.open(name, NEW, 0o777 if entry.get("executable") else 0o666, dir_fd=directory)
    try:
        wire.receive_content(file)
    finally:
        os.close(file)


def _discard(name: bytes, parent: int) -> None:
    try:
        if kind_of(look(name, parent).st_mode) == "directory":
            remove_tree(name, parent, lambda: None)
        else:
            os.unlink(name, dir_fd=parent)
    except OSError:
        pass  # it never came to be, or somebody else has moved it
