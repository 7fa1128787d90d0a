"""Reading a recording while another process writes it, with nothing between them."""

from __future__ import annotations

import json
import os
import random
import sys
import zlib
from collections.abc import Iterator

import pytest

from recordings import unpack
from support import BRIDGE

sys.path.insert(0, str(BRIDGE.parent))
from bridge.recorder import Recorder
from bridge.recording import Recording

CELLS = 12
LAST = b"last"


def message(cell: int, kind: str, content: bytes) -> list[bytes]:
    parent = json.dumps({"msg_id": f"cell {cell}", "msg_type": "execute_request"}).encode()
    return [f"kernel.{kind}".encode(), b"<IDS|MSG>", b"", b"{}", parent, b"{}", content]


def write(recording: Recording) -> None:
    recorder = Recorder(recording)
    chance = random.Random(1)
    for cell in range(1, CELLS + 1):
        recorder.record(message(cell, "status", b'{"execution_state": "busy"}'))
        for number in range(600):
            text = chance.randbytes(chance.choice((10, 1000, 30_000, 100_000)))
            recorder.record(message(cell, "stream", b"%d %d %d " % (cell, number, zlib.crc32(text)) + text))
    recorder.record(message(cell, "stream", LAST))


@pytest.fixture
def recording() -> Iterator[Recording]:
    recording = Recording()
    pid = os.fork()
    if pid == 0:
        write(recording)
        os._exit(0)
    yield recording
    assert os.waitpid(pid, 0)[1] == 0


def test_what_is_read_meanwhile_is_right(recording: Recording) -> None:
    cell, at, number = 0, 0, -1
    buffer = b""
    while LAST not in buffer[-len(LAST) :]:
        part = recording.read(cell, at, 512 * 1024)
        if part.extent.number != cell:
            assert part.start == 0
            cell, at, number, buffer = part.extent.number, 0, -1, b""
        assert part.start >= at
        if part.start > at:
            buffer = b""
        at = part.start + len(part.data)
        assert at <= part.extent.total
        buffer += part.data
        while len(buffer) >= 4 and len(buffer) >= (length := int.from_bytes(buffer[:4], "big")):
            content = unpack(buffer[4:length])[-1]
            if content[:1].isdigit():
                of, this, crc, text = content.split(b" ", 3)
                assert (int(of), int(crc)) == (cell, zlib.crc32(text))
                assert int(this) > number
                number = int(this)
            if content == LAST:
                break
            buffer = buffer[length:]
    assert cell == CELLS
