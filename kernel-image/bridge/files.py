"""`bridge files`: one request about the files of the work directory, over stdin and stdout.

Each request has a process of its own, which runs as the container's user in the work directory.
"""

from __future__ import annotations

import os
import sys

from bridge.beneath import Refused, components, directory_of, look, refusal
from bridge.frames import BrokenFrame
from bridge.reading import Budget, get, list_entries, tell
from bridge.removal import remove_tree
from bridge.staging import put
from bridge.wire import Changed, HostGone, Message, Wire

EXIT_PROTOCOL = 76


def _serve(wire: Wire, request: Message) -> None:
    parts = components(request.get("path"))
    tree = request.get("tree") is True
    operation = request.get("op")
    if operation == "put":
        put(wire, parts)
    elif operation == "remove":
        _remove(wire, parts, tree=tree)
    elif operation == "stat":
        with directory_of(parts[:-1]) as parent:
            tell(wire, b"", look(parts[-1] if parts else b".", parent))
    elif operation == "list":
        list_entries(wire, parts, Budget.of(request), tree=tree)
    elif operation == "get":
        get(wire, parts, Budget.of(request), tree=tree)
    else:
        raise BrokenFrame(f"no such operation: {operation!r}")


def _remove(wire: Wire, parts: list[bytes], *, tree: bool) -> None:
    if not parts:
        raise Refused("directory", "the work directory itself cannot be removed")
    with directory_of(parts[:-1]) as parent:
        try:
            os.unlink(parts[-1], dir_fd=parent)
        except IsADirectoryError:
            if not tree:
                raise
            remove_tree(parts[-1], parent, wire.check_host)


def main(argv: list[str]) -> int:
    if argv:
        print("usage: bridge files", file=sys.stderr)
        return 64
    wire = Wire()
    try:
        try:
            _serve(wire, wire.receive())
            wire.say(type="done")
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            refused = refusal(error)
            wire.say(type="refused", code=refused.code, text=str(refused))
        except Refused as refused:
            wire.say(type="refused", code=refused.code, text=str(refused))
        wire.flush()
    except (BrokenFrame, ValueError, RecursionError) as error:
        print(f"bridge files: {error}", file=sys.stderr)
        return EXIT_PROTOCOL
    except (BrokenPipeError, HostGone, Changed):
        pass
    return 0
