"""Telling of files, and sending them."""

from __future__ import annotations

import os
import stat
from typing import Protocol

from bridge.beneath import Refused, directory_of, kind_of, look, open_in
from bridge.wire import Message, Wire

MAX_DEPTH = 64
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Budget:
    """How much the host takes for one request."""

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size

    @staticmethod
    def of(request: Message) -> Budget:
        return Budget(int(request.get("max_entries", 0)), int(request.get("max_bytes", 0)))

    def entry(self) -> None:
        self._entries -= 1
        if self._entries < 0:
            raise Refused("many", "there are more entries than the host takes")

    def content(self, size: int) -> None:
        self._size -= size
        if self._size < 0:
            raise Refused("large", "there is more than the host takes")


def tell(wire: Wire, path: bytes, status: os.stat_result) -> None:
    wire.say(
        type="entry",
        path=path.decode(errors="replace"),
        kind=kind_of(status.st_mode),
        size=status.st_size if stat.S_ISREG(status.st_mode) else 0,
        mode=stat.S_IMODE(status.st_mode),
        modified_ns=status.st_mtime_ns,
    )


class Visitor(Protocol):
    def enter(self, path: bytes, name: bytes, directory: int, status: os.stat_result) -> bool:
        """Sees an entry, and says whether to go down into it."""

    def closed(self, path: bytes, error: OSError) -> None:
        """A directory cannot be read."""


def _visit(directory: int, above: bytes, visitor: Visitor, depth: int = 0) -> None:
    with os.scandir(directory) as scan:
        for entry in scan:
            name = os.fsencode(entry.name)
            path = above + name
            try:
                status = look(name, directory)
            except FileNotFoundError:
                continue  # it has gone since
            if not visitor.enter(path, name, directory, status):
                continue
            if depth == MAX_DEPTH:
                raise Refused("deep", "the tree is too deep")
            try:
                below = open_in(name, directory)
            except OSError as error:
                visitor.closed(path, error)
                continue
            try:
                _visit(below, path + b"/", visitor, depth + 1)
            finally:
                os.close(below)


class _Listing:
    def __init__(self, wire: Wire, budget: Budget, *, tree: bool) -> None:
        self._wire = wire
        self._budget = budget
        self._tree = tree

    def enter(self, path: bytes, name: bytes, directory: int, status: os.stat_result) -> bool:
        self._budget.entry()
        tell(self._wire, path, status)
        return self._tree and stat.S_ISDIR(status.st_mode)

    def closed(self, path: bytes, error: OSError) -> None:
        raise error


def list_entries(wire: Wire, parts: list[bytes], budget: Budget, *, tree: bool) -> None:
    """What is in a directory; of anything else the thing itself."""
    with directory_of(parts[:-1]) as parent:
        name = parts[-1] if parts else b"."
        status = look(name, parent)
        if not stat.S_ISDIR(status.st_mode):
            tell(wire, b"", status)
            return
        with directory_of([name], top=parent) as directory:
            _visit(directory, b"", _Listing(wire, budget, tree=tree))


class _Sending:
    def __init__(self, wire: Wire, budget: Budget) -> None:
        self._wire = wire
        self._budget = budget

    def enter(self, path: bytes, name: bytes, directory: int, status: os.stat_result) -> bool:
        self._budget.entry()
        kind = kind_of(status.st_mode)
        if not _is_plain(name):
            self._skip(path, "name")
        elif kind == "directory":
            tell(self._wire, path, status)
            return True
        elif kind != "file":
            self._skip(path, kind)
        else:
            try:
                file = os.open(name, READ, dir_fd=directory)
            except OSError as error:
                self.closed(path, error)
            else:
                self.send(path, file)
        return False

    def closed(self, path: bytes, error: OSError) -> None:
        self._skip(path, "missing" if isinstance(error, FileNotFoundError) else "unreadable")

    def _skip(self, path: bytes, reason: str) -> None:
        self._wire.say(type="skipped", path=path.decode(errors="replace"), reason=reason)

    def send(self, path: bytes, file: int) -> None:
        """Sends an open file, and closes it."""
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise Refused("changed", "a file was replaced while it was opened")
            self._budget.content(status.st_size)
            tell(self._wire, path, status)
            self._wire.send_content(file, status.st_size)
        finally:
            os.close(file)


def _is_plain(name: bytes) -> bool:
    """Whether the host takes a file of that name: UTF-8 without control characters."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return False
    return not any(character < " " or "\x7f" <= character <= "\x9f" for character in text)


def get(wire: Wire, parts: list[bytes], budget: Budget, *, tree: bool) -> None:
    """Sends a file, or a directory with all that is in it."""
    sending = _Sending(wire, budget)
    with directory_of(parts[:-1]) as parent:
        name = parts[-1] if parts else b"."
        status = look(name, parent)
        kind = kind_of(status.st_mode)
        if kind == "file":
            sending.send(b"", os.open(name, READ, dir_fd=parent))
        elif kind == "directory" and tree:
            tell(wire, b"", status)
            with directory_of([name], top=parent) as directory:
                _visit(directory, b"", sending)
        else:
            raise Refused({"symlink": "link"}.get(kind, kind), f"it is a {kind}")
