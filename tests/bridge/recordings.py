"""The host's end of a recording: reads it in parts and puts the records together."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, field

import zmq
from jupyter_client.session import Session

from support import Bridge, Control, Message, wait_until

MAX_PART = 512 * 1024


@dataclass
class Reading:
    """All that was there of a cell's recording."""

    cell: int
    total: int = 0
    records: list[list[bytes]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Where bytes were missing, and how many."""
    offsets: list[int] = field(default_factory=list)
    """Where each record starts."""

    def messages(self, key: str) -> list[Message]:
        """The records as messages. Raises if a signature is wrong."""
        return [parse(record, key) for record in self.records]


def parse(record: list[bytes], key: str) -> Message:
    session = Session(key=key.encode(), signature_scheme="hmac-sha256")
    return dict(session.deserialize(session.feed_identities(record)[1]))


def read_recording(control: Control, cell: int = 0) -> Reading:
    """Reads from the beginning up to the end that is there at some time."""
    reading = Reading(cell)
    buffer, at = b"", 0
    while True:
        part = control.request("record", cell=reading.cell, **{"from": at})
        data = base64.b64decode(part["data"])
        assert len(data) <= MAX_PART
        assert part["next"] == part["from"] + len(data) <= part["total"]
        if part["cell"] != reading.cell:
            assert part["from"] == 0
            reading = Reading(part["cell"])
            buffer, at = b"", 0
        if part["from"] > at:
            reading.gaps.append((at - len(buffer), part["from"] - at + len(buffer)))
            buffer = b""
        start = part["from"] - len(buffer)
        buffer += data
        at = part["next"]
        while len(buffer) >= 4 and len(buffer) >= (length := struct.unpack_from(">I", buffer)[0]):
            assert length >= 8
            reading.offsets.append(start)
            reading.records.append(unpack(buffer[4:length]))
            buffer = buffer[length:]
            start += length
        reading.total = part["total"]
        if at == part["total"]:
            assert buffer == b""
            return reading


def unpack(body: bytes) -> list[bytes]:
    (count,) = struct.unpack_from(">I", body)
    frames, at = [], 4
    for _ in range(count):
        (length,) = struct.unpack_from(">I", body, at)
        frames.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    assert at == len(body)
    return frames


class Subscriber:
    """Sees IOPub as bytes."""

    def __init__(self, bridge: Bridge, started: Message) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.SUB)
        self.socket.linger = 0
        self.socket.rcvhwm = 0
        self.socket.connect(f"ipc://{bridge.runtime_dir}/k{started['generation']}-4")
        self.socket.subscribe(b"")
        self.key = started["key"]
        # Only the first subscriber of a kernel is welcomed.
        client = bridge.client(started)
        wait_until("a subscription", lambda: client.kernel_info() and self.socket.poll(50))

    def until_idle(self, msg_id: str) -> list[list[bytes]]:
        """Everything that has `msg_id` as its parent, up to its idle status."""
        seen = []
        while True:
            assert self.socket.poll(20_000), "no idle status"
            frames = self.socket.recv_multipart()
            message = parse(frames, self.key)
            if message["parent_header"].get("msg_id") == msg_id:
                seen.append(frames)
                if message["content"].get("execution_state") == "idle":
                    return seen

    def close(self) -> None:
        self._context.destroy(0)


def cell_of(control: Control) -> Message:
    """What `hello` tells of the latest cell."""
    return dict(control.hello()["cell"])


def wait_for_end(control: Control, number: int) -> Message:
    """What `hello` tells of a cell once it has ended."""

    def ended() -> Message | None:
        cell = control.hello()["cell"]
        return dict(cell) if cell and cell["number"] == number and cell["state"] == "ended" else None

    return dict(wait_until(f"the end of cell {number}", ended))
