"""The container's count of processes killed for want of memory."""

from __future__ import annotations

import posix

COUNTERS = (
    "/sys/fs/cgroup/memory.events",  # version 2
    "/sys/fs/cgroup/memory/memory.oom_control",  # version 1
)


class OomWatch:
    """The same count for one who looks often: its file stays open, and a look costs microseconds."""

    def __init__(self, paths: tuple[str, ...] = COUNTERS) -> None:
        self._file = next((posix.open(path, posix.O_RDONLY) for path in paths if posix.access(path, posix.R_OK)), -1)
        self._seen = self._count()

    def _count(self) -> int:
        try:
            return _count_in(posix.pread(self._file, 4096, 0).decode("ascii")) or 0
        except (OSError, ValueError):
            return 0

    def has_struck(self) -> bool:
        """Whether the killer has struck since the last look."""
        before, self._seen = self._seen, self._count()
        return self._seen > before


def _count_in(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


def oom_kills(paths: tuple[str, ...] = COUNTERS) -> int:
    """How often the kernel's out-of-memory killer struck in this cgroup, 0 where that cannot be told."""
    for path in paths:
        try:
            with open(path, encoding="ascii") as file:
                count = _count_in(file.read())
        except (OSError, ValueError):
            continue
        if count is not None:
            return count
    return 0
