"""What code has said before it ends its process by `os._exit` goes out, as it would from a program of its own."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from functools import wraps
from typing import NoReturn, TextIO

from bridge.streams import Publisher

PATIENCE = 0.2
"""A reader that stalls must not keep the process."""
LOOK = 0.001


def keep(publisher: Publisher, streams: Collection[TextIO], listeners: Collection[int]) -> None:
    """From here on `os._exit` of this process first says what is left to say. The listeners are those of IOPub."""
    process = os.getpid()
    stock = os._exit
    addresses = {address for listener in listeners if (address := _address(listener))}

    def say() -> None:
        for stream in streams:
            stream.flush()
        # ZeroMQ closes a connection when all of it has left the process, which nothing else tells.
        publisher.schedule(lambda: publisher.socket.close(linger=int(PATIENCE * 1000)))
        while _any_open(addresses):
            time.sleep(LOOK)

    @wraps(stock)
    def exit_now(status: int) -> NoReturn:
        if os.getpid() == process:
            with suppress(BaseException):
                saying = threading.Thread(target=say, daemon=True)
                saying.start()
                saying.join(PATIENCE)
        stock(status)

    os._exit = exit_now


def _any_open(addresses: Collection[str]) -> bool:
    return any(_address(int(entry)) in addresses for entry in os.listdir("/proc/self/fd"))


def _address(descriptor: int) -> str:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as sock:
            address = sock.getsockname()
            return address if isinstance(address, str) else ""
    except OSError:
        return ""
