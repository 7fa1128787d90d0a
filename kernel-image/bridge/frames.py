"""Frames: `u8 stream · u8 kind · u32 length · payload`, big-endian."""

from __future__ import annotations

from struct import Struct

DATA, OPEN, CLOSE, CREDIT = range(4)

HEADER = Struct(">BBI")
U32 = Struct(">I")
MAX_PAYLOAD = 1 << 20
CREDIT_AT_START = 1 << 20

CHANNELS = {"shell": 1, "stdin": 2, "control": 3, "iopub": 4, "hb": 5}


class BrokenFrame(Exception):
    """The peer sent bytes that are no frame. The connection is of no use any more."""


class Decoder:
    """Cuts a byte stream into frames. Holds at most one incomplete frame and the last chunk fed."""

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        self._buffer = bytearray()
        self._max_payload = max_payload

    @property
    def holds_part(self) -> bool:
        """Whether the rest of a frame is still to come."""
        return bool(self._buffer)

    def feed(self, chunk: bytes) -> list[tuple[int, int, bytes]]:
        """Returns the frames `(stream, kind, payload)` that are complete now."""
        buffer = self._buffer
        buffer += chunk
        frames = []
        at = 0
        while len(buffer) - at >= HEADER.size:
            stream, kind, length = HEADER.unpack_from(buffer, at)
            if length > self._max_payload:
                raise BrokenFrame(f"a frame of {length} bytes is over the limit of {self._max_payload}")
            if kind > CREDIT:
                raise BrokenFrame(f"unknown kind of frame {kind}")
            end = at + HEADER.size + length
            if len(buffer) < end:
                break
            frames.append((stream, kind, bytes(buffer[at + HEADER.size : end])))
            at = end
        del buffer[:at]
        return frames


def encode(stream: int, kind: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return HEADER.pack(stream, kind, len(payload)) + payload
