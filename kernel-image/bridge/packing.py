"""JSON that every reader takes.

Python's text may hold lone surrogates. Jupyter fails to send some of them, so that the reply to a cell never comes,
and sends the others as bytes that are no UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Pack = Callable[[Any], bytes]


def only_unicode(pack: Pack) -> Pack:
    """The same packer, which writes what is no character as its escape."""

    def packed(message: Any) -> bytes:
        if not message and type(message) is dict:
            return b"{}"  # which the metadata of most messages is
        try:
            data = pack(message)
            if not data.isascii():
                data.decode()
            return data
        except UnicodeError:
            return pack(escaped(message))

    return packed


def escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {escaped(key): escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [escaped(item) for item in value]
    return value
