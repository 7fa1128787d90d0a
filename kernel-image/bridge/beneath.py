"""Paths beneath the work directory, opened so that no symbolic link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

CODES = {
    errno.ENOENT: "missing",
    errno.EEXIST: "exists",
    errno.ENOTEMPTY: "exists",
    errno.EISDIR: "directory",
    errno.ENOTDIR: "not_directory",
    errno.ELOOP: "link",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EFBIG: "full",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "denied",
    errno.ENAMETOOLONG: "name",
}


class Refused(Exception):
    """The request cannot be done. The code is the host's to explain; the text is for what it does not know."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def refusal(error: OSError) -> Refused:
    return Refused(CODES.get(error.errno or 0, "io"), error.strerror or str(error))


def components(path: object) -> list[bytes]:
    """The parts of a path relative to the work directory, which is itself the empty path."""
    if not isinstance(path, str):
        raise Refused("name", "a path is a text")
    parts = path.encode(errors="surrogatepass").split(b"/") if path else []
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise Refused("name", "a path has no empty part, no dots and no NUL")
    return parts


def kind_of(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def look(name: bytes, directory: int) -> os.stat_result:
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


def open_in(name: bytes, directory: int) -> int:
    """Opens a directory in a directory."""
    try:
        return os.open(name, DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        if stat.S_ISLNK(look(name, directory).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


@contextmanager
def directory_of(parts: list[bytes], made: list[list[bytes]] | None = None, top: int | None = None) -> Iterator[int]:
    """The directory of that path beneath `top`. Missing ones are made if `made` is given, which then lists them."""
    current = os.open(".", DIRECTORY, dir_fd=top)
    try:
        for depth, part in enumerate(parts):
            try:
                following = open_in(part, current)
            except FileNotFoundError:
                if made is None:
                    raise
                os.mkdir(part, dir_fd=current)
                made.append(parts[: depth + 1])
                following = open_in(part, current)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def unmake(made: list[list[bytes]]) -> None:
    """Removes directories that were made in vain."""
    for parts in reversed(made):
        try:
            with directory_of(parts[:-1]) as parent:
                os.rmdir(parts[-1], dir_fd=parent)
        except OSError:
            return
