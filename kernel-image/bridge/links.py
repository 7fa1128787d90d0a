"""PID 1's connections: the listener for relays, the dialled host socket, and everybody connected."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

from bridge.lease import NEVER
from bridge.peer import Gone, Message, Peer
from bridge.sweep import parent_of

SOCKET_NAME = "bridge.sock"
MAX_PEERS = 24
"""One controller, its watchers, and those that are refused."""
REDIAL_SECONDS = 0.2
SILENCE_SECONDS = 60.0
FAREWELL_SECONDS = 1.0

Handle = Callable[[Peer, Message], None]


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


class Links:
    """Whoever breaks the protocol loses the connection, and nobody else notices."""

    def __init__(self, runtime_dir: str, host_dir: str, selector: DefaultSelector) -> None:
        self._selector = selector
        self._path = os.path.join(runtime_dir, SOCKET_NAME)
        self._host_socket = os.path.join(host_dir, SOCKET_NAME)
        self._is_init = os.getpid() == 1
        # In a container the directory is there in any case: only a mount can ever hold the host's socket.
        self._dials = not self._is_init or os.path.ismount(host_dir)
        self._redial_at = 0.0
        self._dialled: Peer | None = None
        self._peers: set[Peer] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.handle: Handle = lambda _peer, _message: None
        self.gone: Callable[[Peer], None] = lambda _peer: None

    def open(self, now: float) -> None:
        """Makes this bridge reachable."""
        remove(self._path)
        self._listener.bind(self._path)
        self._listener.listen(MAX_PEERS)
        self._listener.setblocking(False)
        self._selector.register(self._listener, EVENT_READ, self._accept)
        self._dial(now)

    def tick(self, now: float, attended: bool) -> float:
        """Drops the silent, dials the host again, and returns when to look next."""
        next_at = NEVER
        for peer in list(self._peers):
            # The socket link needs no pings: there the end of the controller is the end of the stream.
            if peer.relayed and now >= peer.heard_at + SILENCE_SECONDS:
                self.drop(peer)
            elif peer.relayed:
                next_at = min(next_at, peer.heard_at + SILENCE_SECONDS)
        if self._dials and self._dialled is None and not attended:
            if now >= self._redial_at:
                self._dial(now)
            next_at = min(next_at, self._redial_at)
        return next_at

    def _dial(self, now: float) -> None:
        self._redial_at = now + REDIAL_SECONDS
        if not self._dials:
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)  # a full backlog must not hold PID 1 up
            sock.connect(self._host_socket)
        except OSError:
            sock.close()
            return
        self._dialled = self._add(Peer(sock, relayed=False, now=now))

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return
        if len(self._peers) >= MAX_PEERS or not self._may_connect(sock):
            sock.close()
            return
        self._add(Peer(sock, relayed=True, now=time.monotonic()))

    def _may_connect(self, sock: socket.socket) -> bool:
        """Only what the engine's exec started, which is what has a parent outside, and not what the kernel did."""
        if not self._is_init:
            return True
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return parent_of(int.from_bytes(credentials[:4], sys.byteorder)) == 0

    def _add(self, peer: Peer) -> Peer:
        self._peers.add(peer)
        self._selector.register(peer.sock, EVENT_READ, lambda events: self._serve(peer, events))
        return peer

    def drop(self, peer: Peer) -> None:
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        self._selector.unregister(peer.sock)
        peer.close()
        if peer is self._dialled:
            self._dialled = None
        self.gone(peer)

    def _serve(self, peer: Peer, events: int) -> None:
        if peer not in self._peers:
            return
        try:
            if events & EVENT_WRITE:
                self._flush(peer)
            if events & EVENT_READ:
                for message in peer.receive():
                    peer.heard_at = time.monotonic()
                    if not peer.closing:
                        self.handle(peer, message)
                peer.close_unclaimed()
        except Gone:
            self.drop(peer)

    def _flush(self, peer: Peer) -> None:
        peer.flush()
        if peer.closing and not peer.unsent:
            raise Gone("refused")
        events = EVENT_READ | (EVENT_WRITE if peer.unsent else 0)
        key = self._selector.get_key(peer.sock)
        if key.events != events:
            self._selector.modify(peer.sock, events, key.data)

    def answer(self, peer: Peer, message: Message, *, last: bool = False) -> None:
        """Sends a reply; with `last` the connection is closed after it. Raises `Gone`."""
        peer.closing = last
        peer.queue(message)
        self._flush(peer)

    def tell(self, peer: Peer, event: Message) -> None:
        """Sends an event."""
        try:
            peer.queue(event)
            self._flush(peer)
        except Gone:
            self.drop(peer)

    def say_goodbye(self) -> None:
        """Lets the last messages leave. When PID 1 ends a relay ends too, so it closes first."""
        for peer in list(self._peers):
            try:
                peer.flush()
            except Gone:
                pass
            peer.end_sending()
        end = time.monotonic() + FAREWELL_SECONDS
        for peer in [peer for peer in self._peers if peer.relayed]:
            peer.wait_for_end(end)
        remove(self._path)

    def close_in_child(self) -> None:
        for peer in self._peers:
            peer.close()
        self._listener.close()
