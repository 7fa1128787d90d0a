"""What PID 1 does about a script whose own `bridge script` was stopped, killed or forged by it."""

from __future__ import annotations

import os

from bridge.command import path_prefix
from bridge.sweep import end_tree, parent_of


def end(script: str) -> None:
    """Ends what `bridge script` runs under this id, and removes its file. What had left it is PID 1's own to end."""
    for name in os.listdir("/proc"):
        if name.isdigit() and _runs(int(name), script.encode()):
            end_tree(int(name), seconds=1.0)
    directory, prefix = os.path.split(path_prefix(script))
    for entry in os.listdir(directory):
        if entry.startswith(prefix):
            try:
                os.unlink(os.path.join(directory, entry))
            except OSError:
                pass


def _runs(pid: int, script: bytes) -> bool:
    # The engine's exec starts it from outside. As a plain process the bridge cannot tell that.
    if os.getpid() == 1 and parent_of(pid) != 0:
        return False
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return pid != os.getpid() and b"script" in words and script in words
