"""pyzmq's socket with plain numbers where pyzmq has enumerations, which cost more than sending a small frame does."""

from __future__ import annotations

from typing import Any

import zmq
from zmq.backend import Socket as Backend

SNDMORE = int(zmq.SNDMORE)
EVENTS = int(zmq.EVENTS)


class Socket(zmq.Socket[bytes]):
    """Sends and tells the same as its base class."""

    def send_multipart(
        self, msg_parts: Any, flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        if kwargs or not all(isinstance(part, (bytes, zmq.Frame)) for part in msg_parts):
            return super().send_multipart(msg_parts, flags, copy, track, **kwargs)
        flags = int(flags)
        for part in msg_parts[:-1]:
            Backend.send(self, part, flags | SNDMORE, copy, track)
        return Backend.send(self, msg_parts[-1], flags, copy, track)

    @property
    def events(self) -> int:
        return int(Backend.get(self, EVENTS))

    EVENTS = events
