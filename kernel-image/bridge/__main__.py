"""Entry point: `python -I …/bridge init|relay|script|files`, or `bin/bridge`."""

from __future__ import annotations

import sys

if not __package__:
    # Run by its path: what is importable must be the package, not its files.
    here = __file__.rpartition("/")[0]
    sys.path[: sys.path[:1] == [here]] = [here.rpartition("/")[0]]

USAGE = (
    "usage: bridge init [options] | bridge relay [--runtime-dir DIR] | bridge script ID | bridge files [--socket NAME]"
)


def main(argv: list[str]) -> int:
    # Each command imports only what it needs: the relay's start is on the way to a session's first cell.
    if argv[:1] == ["relay"]:
        from bridge import relay

        return relay.main(argv[1:])
    if argv[:1] == ["script"]:
        from bridge import script

        return script.main(argv[1:])
    if argv[:1] == ["files"]:
        from bridge import files

        return files.main(argv[1:])
    if argv[:1] == ["init"]:
        from bridge import init

        return init.main(argv[1:])
    print(USAGE, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
