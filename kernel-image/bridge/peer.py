"""One connection that carries control messages: dialled by us (socket link) or accepted (relay link)."""

from __future__ import annotations

import array
import json
import os
import socket
import time
from typing import Any

from bridge import frames

Message = dict[str, Any]

MAX_MESSAGE = 64 * 1024
MAX_UNSENT = 2 << 20
"""Two parts of a recording, with room for events."""
MAX_DESCRIPTORS = 5
CHUNK = 64 * 1024


class Gone(Exception):
    """The connection has ended, or its peer broke the protocol, which comes to the same."""


class Peer:
    """Never trusts what it reads: whatever is wrong with it ends this connection and nothing else."""

    def __init__(self, sock: socket.socket, *, relayed: bool, now: float) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.relayed = relayed
        self.heard_at = now
        self.closing = False
        self._decoder = frames.Decoder(MAX_MESSAGE)
        self._unsent = bytearray()
        self._descriptors: list[int] = []

    def receive(self) -> list[Message]:
        """Reads once and returns the messages that are complete now."""
        try:
            chunk = self.sock.recv(CHUNK) if self.relayed else self._receive_with_descriptors()
        except BlockingIOError:
            return []
        except OSError as error:
            raise Gone(str(error)) from error
        if not chunk:
            raise Gone("end of stream")
        try:
            return [self._message(*frame) for frame in self._decoder.feed(chunk)]
        except (frames.BrokenFrame, ValueError, RecursionError) as error:
            raise Gone(str(error)) from error

    @staticmethod
    def _message(stream: int, kind: int, payload: bytes) -> Message:
        if stream != 0 or kind != frames.DATA:
            raise frames.BrokenFrame("only control messages are read here")
        message = json.loads(payload)
        if not isinstance(message, dict):
            raise ValueError("a control message must be a JSON object")
        return message

    def _receive_with_descriptors(self) -> bytes:
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        chunk, ancillary, _, _ = self.sock.recvmsg(CHUNK, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                self._descriptors += received
        if len(self._descriptors) > MAX_DESCRIPTORS:
            raise Gone("more descriptors than any message has")
        return chunk

    def close_unclaimed(self) -> None:
        """Closes the descriptors that no message has taken. Those of one that is not complete wait for its rest."""
        if not self._decoder.holds_part:
            for descriptor in self.take_descriptors():
                os.close(descriptor)

    def take_descriptors(self) -> list[int]:
        """All descriptors received so far. They are the caller's to close."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def queue(self, message: Message) -> None:
        """Queues a message to be sent by `flush`."""
        self._unsent += frames.encode(0, frames.DATA, json.dumps(message).encode())
        if len(self._unsent) > MAX_UNSENT:
            raise Gone("the peer does not read")

    def flush(self) -> None:
        while self._unsent:
            try:
                del self._unsent[: self.sock.send(self._unsent)]
            except BlockingIOError:
                return
            except OSError as error:
                raise Gone(str(error)) from error

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def end_sending(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def wait_for_end(self, end: float) -> None:
        """Reads until the peer has closed too, or `end` is reached."""
        try:
            while (left := end - time.monotonic()) > 0:
                self.sock.settimeout(left)
                if not self.sock.recv(CHUNK):
                    return
        except OSError:
            return

    def close(self) -> None:
        for descriptor in self.take_descriptors():
            os.close(descriptor)
        self.sock.close()
