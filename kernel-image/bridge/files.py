"""`bridge files`: one request about the files of the work directory, over a socket of the host, or stdin and stdout.

Each request has a process of its own, which runs as the container's user in the work directory.
"""

from __future__ import annotations

import os
import stat
import sys
from _socket import AF_UNIX, SO_SNDBUF, SOL_SOCKET, socket  # without what Python's own adds, which takes time to load

from bridge.beneath import Refused, components, directory_of, look, refusal
from bridge.frames import BrokenFrame
from bridge.reading import Budget, get, list_entries, tell
from bridge.removal import remove_tree
from bridge.staging import put
from bridge.wire import ROOM, STDIN, STDOUT, Changed, HostGone, Message, Wire

EXIT_PROTOCOL = 76
LARGE = 256 * 1024
USAGE = "usage: bridge files [--host-dir DIR] [--socket NAME]"


def _answer(wire: Wire, request: Message) -> None:
    parts = components(request.get("path"))
    tree = request.get("tree") is True
    operation = request.get("op")
    if operation == "put":
        put(wire, parts, request.get("temporary"))
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


def _dial(path: str) -> tuple[socket, str]:
    """Connects to the host, and says there what it then hears on stdout, too."""
    connection = socket(AF_UNIX)
    # What fills the host's queue of callers must not make us wait.
    connection.setblocking(False)
    connection.connect(path)
    connection.setblocking(True)
    connection.setsockopt(SOL_SOCKET, SO_SNDBUF, ROOM)
    token = os.urandom(16).hex()
    connection.send(token.encode())
    return connection, token


def _is_large(request: Message) -> bool:
    """Whether there may be much to move. What is small is there sooner without another connection."""
    if request.get("op") == "put":
        return True  # the host would not have made a socket otherwise
    try:
        parts = components(request.get("path"))
        with directory_of(parts[:-1]) as parent:
            status = look(parts[-1] if parts else b".", parent)
    except (OSError, Refused):
        return False
    return stat.S_ISDIR(status.st_mode) or status.st_size >= LARGE


def _move(wire: Wire, path: str) -> Wire:
    """The connection to go on with: to what the host listens on, if that can be reached."""
    try:
        connection, token = _dial(path)
    except OSError as error:
        wire.say(type="not_dialled", text=str(error))
        wire.flush()
        return wire
    wire.say(type="dialled", token=token)
    wire.flush()
    descriptor = connection.detach()
    return Wire(descriptor, descriptor)


def _serve(path: str | None) -> int:
    wire = Wire(STDIN, STDOUT)
    try:
        request = wire.receive()
        if path is not None:
            if _is_large(request):
                wire = _move(wire, path)
            else:
                wire.say(type="not_dialled", text="it is small")
        try:
            _answer(wire, request)
            wire.say(type="done")
        except OSError as error:
            if isinstance(error, (BrokenPipeError, ConnectionResetError)):
                raise
            refused = refusal(error)
            wire.say(type="refused", code=refused.code, text=str(refused))
        except Refused as refused:
            wire.say(type="refused", code=refused.code, text=str(refused))
        wire.flush()
    except (BrokenFrame, ValueError, RecursionError) as error:
        print(f"bridge files: {error}", file=sys.stderr)
        return EXIT_PROTOCOL
    except (BrokenPipeError, ConnectionResetError, HostGone, Changed):
        pass
    return 0


def main(argv: list[str]) -> int:
    options = dict(zip(argv[::2], argv[1::2], strict=False))
    name = options.get("--socket")
    if len(options) * 2 != len(argv) or options.keys() - {"--host-dir", "--socket"} or "/" in (name or ""):
        print(USAGE, file=sys.stderr)
        return 64
    host_dir = options.get("--host-dir", "/run/cellblock-host")
    return _serve(f"{host_dir}/{name}" if name is not None else None)
