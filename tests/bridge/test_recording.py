"""The recording: what a cell said is there for whoever comes later, whatever became of its kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recordings import Subscriber, cell_of, read_recording, wait_for_end
from support import PATIENCE, Bridge, Cell, Control, Message, run, wait_until

StartBridge = Callable[..., Bridge]
MIB = 1 << 20


@pytest.fixture
def detached(start_bridge: StartBridge) -> Bridge:
    return start_bridge("--lease", "detached")


def reattach(bridge: Bridge) -> Control:
    def attempt() -> Control | None:
        control = bridge.connect()
        return control if control.hello()["ok"] else None

    found: Control = wait_until("the session to be free", attempt)
    return found


def test_a_recording_is_what_a_subscriber_saw(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    subscriber = Subscriber(detached, started)
    assert (control.hello()["cell"], read_recording(control).total) == (None, 0)
    code = """
import os, sys
for i in range(50):
    print('line', i, 'é' * i)
    if i % 10 == 0: display({'text/plain': str(i), 'application/json': {'i': i}}, raw=True)
print('oops', file=sys.stderr)
os.system('echo child'); os.write(2, b'descriptor')
print('x' * 900_000)
get_ipython().kernel.session.send(get_ipython().kernel.iopub_socket, 'comm_msg',
    {'comm_id': 'a'}, parent=get_ipython().get_parent(), buffers=[b'', b'\\0' * 1000, memoryview(b'abcd').cast('I')])
1 / 0
"""
    for number, source in enumerate(("1 + 1", code, "print('again')", ""), start=1):
        msg_id = client.execute(source)
        seen = subscriber.until_idle(msg_id)
        reading = read_recording(control)
        assert reading.cell == number
        assert (reading.records == seen) is True
        assert [message["parent_header"]["msg_id"] for message in reading.messages(started["key"])] == [msg_id] * len(
            seen
        )
        assert not reading.gaps
        cell = cell_of(control)
        assert cell == {
            "number": number,
            "state": "ended",
            "delivered": False,
            "rung": None,
            "deadline_ms": None,
            "grace_ms": 0,
            "exit": None,
            "generation": 1,
            "key": started["key"],
        }
    subscriber.close()


def test_a_flood_keeps_head_and_tail(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    code = "for i in range(300_000): print(f'{i:07d}', 'x' * 92)\nprint('end')"
    (msg_id,) = {message["parent_header"]["msg_id"] for message in run(client, code, 60).messages}
    reading = read_recording(control)
    messages = reading.messages(started["key"])
    assert {message["parent_header"]["msg_id"] for message in messages} == {msg_id}
    assert reading.total > 30_000_000
    ((at, lost),) = reading.gaps
    # The gap lies between two records, and all bytes are accounted for.
    sizes = [end - start for start, end in zip(reading.offsets, [*reading.offsets[1:], reading.total], strict=True)]
    after = reading.offsets.index(at + lost)
    assert at == sum(sizes[: after - 1]) + len_of(reading.records[after - 1])
    assert MIB < at <= 2 * MIB
    assert 5 * MIB < reading.total - at - lost < 6 * MIB
    assert sum(map(len_of, reading.records)) + lost == reading.total
    head, tail = messages[:after], messages[after:]
    assert [message["msg_type"] for message in head[:2]] == ["status", "execute_input"]
    assert tail[-1]["content"] == {"execution_state": "idle"}
    lines = [text_of(part).splitlines() for part in (head, tail)]
    # The messages are cut by size, so the lines beside the gap may be incomplete.
    assert lines[0][:-1] == [f"{i:07d} {'x' * 92}" for i in range(len(lines[0]) - 1)]
    first = 300_001 - len(lines[1])
    assert lines[1][1:] == [f"{i:07d} {'x' * 92}" for i in range(first + 1, 300_000)] + ["end"]


def len_of(record: list[bytes]) -> int:
    return 8 + sum(4 + len(frame) for frame in record)


def text_of(messages: list[Message]) -> str:
    return "".join(message["content"]["text"] for message in messages if message["msg_type"] == "stream")


def test_what_is_larger_than_the_tail_is_counted(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    code = f"print('before')\ndisplay({{'text/plain': 'x' * {7 * MIB}}}, raw=True)\nprint('after')"
    run(client, code)
    reading = read_recording(control)
    messages = reading.messages(started["key"])
    assert text_of(messages) == "before\nafter\n"
    ((_, lost),) = reading.gaps
    assert 7 * MIB < lost < 7 * MIB + 4096
    # What is just not larger is kept, in several parts.
    run(client, f"display({{'text/plain': 'x' * {5 * MIB}}}, raw=True)")
    reading = read_recording(control)
    assert not reading.gaps
    (display,) = [message for message in reading.messages(started["key"]) if message["msg_type"] == "display_data"]
    assert len(display["content"]["data"]["text/plain"]) == 5 * MIB


def test_a_reader_in_the_middle_of_a_flood_gets_whole_records(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    cell = Cell(client, "print('going', flush=True)\nwhile True: print('x' * 10_000)")
    read = 0
    while read < 10:
        reading = read_recording(control)
        if reading.cell:
            reading.messages(started["key"])
            read += 1
        # So that the kernel goes on.
        for _ in range(100):
            client.iopub_channel.socket.recv_multipart()
    assert cell_of(control)["state"] == "running"
    control.request("interrupt", generation=1)
    cell.finish()


def test_a_cell_that_runs_while_nobody_is_connected(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    code = """
import os, time
print('first', flush=True)
while not os.path.exists('%s'): time.sleep(0.01)
for i in range(10_000): print(i)
'last'
"""
    gate = detached.host_dir / "gate"
    cell = Cell(client, code % gate)
    while not cell.of("stream"):
        cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
    client.stop_channels()
    control.close()
    gate.touch()
    control = reattach(detached)
    assert wait_for_end(control, 1)["delivered"] is False
    messages = read_recording(control).messages(started["key"])
    assert text_of(messages) == "first\n" + "".join(f"{i}\n" for i in range(10_000))
    assert [message["msg_type"] for message in messages][-2:] == ["execute_result", "status"]
    control.send({"type": "done"})
    assert cell_of(control)["delivered"] is True


def test_the_recording_survives_its_kernel(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    run(client, "1")
    Cell(client, "for i in range(1000): display(i)\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    event = control.event("exit")
    again = control.request("start")
    cell = cell_of(control)
    assert (cell["number"], cell["state"], cell["exit"]) == (2, "ended", event)
    assert (cell["generation"], cell["key"]) == (1, started["key"])
    messages = read_recording(control).messages(cell["key"])
    shown = [message["content"]["data"]["text/plain"] for message in messages if message["msg_type"] == "display_data"]
    # Also what was still on its way to the socket.
    assert shown == list(map(str, range(1000)))
    # The next generation goes on with the numbers.
    client = detached.client(again)
    run(client, "2")
    cell = cell_of(control)
    assert (cell["number"], cell["generation"], cell["exit"]) == (3, 2, None)
    # A kernel that ends after its cell did not end it.
    control.request("start")
    cell = cell_of(control)
    assert (cell["state"], cell["generation"], cell["exit"]) == ("ended", 2, None)


def test_a_kernel_that_ends_in_a_cell_is_told(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    Cell(client, "print('last words', flush=True)\nimport os; os._exit(3)")
    event = control.event("exit")
    hello = control.hello()
    assert hello["kernel"] is None
    assert (hello["cell"]["state"], hello["cell"]["exit"]) == ("ended", event)
    assert text_of(read_recording(control).messages(hello["cell"]["key"])) == "last words\n"


def test_only_cells_are_recorded(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, "import threading; go = threading.Event()")
    code = "thread = threading.Thread(target=lambda: (go.wait(), print('late', flush=True))); thread.start()"
    first = run(client, code).msg_id
    client.kernel_info(reply=True, timeout=PATIENCE)
    client.complete("pri", reply=True, timeout=PATIENCE)
    client.control_channel.send(client.session.msg("kernel_info_request", {}))
    client.get_control_msg(timeout=PATIENCE)
    second = run(client, "go.set(); thread.join()").msg_id
    cell = cell_of(control)
    assert cell["number"] == 3
    messages = read_recording(control).messages(cell["key"])
    assert {message["parent_header"]["msg_type"] for message in messages} == {"execute_request"}
    assert [message["parent_header"]["msg_id"] for message in messages if message["msg_type"] == "stream"] == [first]
    assert {message["parent_header"]["msg_id"] for message in messages} == {first, second}


def test_delivered_is_for_the_cell_that_was_meant(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    first = run(client, "1").msg_id
    second = run(client, "2").msg_id
    control.send({"type": "done", "msg_id": first})
    assert cell_of(control)["delivered"] is False
    control.send({"type": "done", "msg_id": second})
    assert cell_of(control)["delivered"] is True
    run(client, "3")
    assert cell_of(control)["delivered"] is False
    control.send({"type": "done"})
    assert cell_of(control)["delivered"] is True
    run(client, "4")
    control.send({"type": "done", "msg_id": ["odd"]})
    assert cell_of(control)["number"] == 4


def test_the_unattended_ladder_is_told(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    code = """
words = ['going']
while True:
    try:
        # Here too, since the word can be read before this call returns.
        while words: print(words.pop(), flush=True)
        while True: sum(range(99))
    except KeyboardInterrupt:
        print('no', flush=True)
"""
    cell = Cell(client, code)
    control.send({"type": "deadline", "ms": 60_000, "grace_ms": 500})
    while not cell.of("stream"):
        cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
    told = cell_of(control)
    assert (told["state"], told["rung"], told["grace_ms"]) == ("running", None, 500)
    assert 0 < told["deadline_ms"] <= 60_000
    control.send({"type": "deadline", "ms": 0, "grace_ms": 60_000})
    control.close()
    while cell.text() != "going\nno\n":
        cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
    control = reattach(detached)
    told = cell_of(control)
    assert (told["state"], told["rung"], told["exit"]) == ("running", "interrupt", None)
    assert 0 < told["deadline_ms"] <= 60_000
    # The controller can set another.
    control.send({"type": "deadline", "ms": 0, "grace_ms": 0})
    control.close()
    wait_until("the next generation", lambda: (detached.runtime_dir / "k2-1").exists())
    control = reattach(detached)
    hello = control.hello()
    told = hello["cell"]
    assert (told["state"], told["rung"], told["deadline_ms"]) == ("ended", "kernel_restart", None)
    assert told["exit"] == hello["last_exit"]
    assert (told["generation"], hello["kernel"]["generation"]) == (1, 2)
    messages = read_recording(control).messages(told["key"])
    assert text_of(messages).startswith("going\nno\n")


def test_an_owned_session_records_nothing(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    run(client, "1")
    assert control.hello()["cell"] is None
    reply = control.request("record", cell=1, **{"from": 5})
    assert (reply["cell"], reply["from"], reply["next"], reply["total"], reply["data"]) == (0, 0, 0, 0, "")


def test_odd_questions_are_answered(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, "1")
    total = control.request("record", cell=1, **{"from": 0})["total"]
    for cell, start in ((1, 1 << 70), (1, total), (1, -1), (1, "x"), (1, None), (1, True), (1.0, 0), (1 << 70, 3)):
        reply = control.request("record", cell=cell, **{"from": start})
        assert (reply["ok"], reply["cell"], reply["total"]) == (True, 1, total)
        assert reply["from"] in (0, total)
    assert control.request("record")["from"] == 0


GARBAGE = """
import ctypes, os, random, re
def mapping():
    for line in open('/proc/self/maps'):
        start, end = (int(part, 16) for part in line.split()[0].split('-'))
        if '/dev/zero' in line and end - start == 8 << 20: return start
def poke(at, data):
    ctypes.memmove(start + at, data, len(data))
start = mapping()
"""


def test_garbage_in_the_recording_does_not_hurt(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, GARBAGE)
    run(client, "assert start")
    words = [0, 1, 2, 3, 4095, 2 << 20, 6 << 20, 8 << 20, (1 << 53) - 1, 1 << 53, (1 << 63) + 1, (1 << 64) - 1]
    codes = [
        "poke(0, os.urandom(8 << 20))",
        "poke(0, b'\\xff' * (8 << 20))",
        "poke(0, bytes(8 << 20))",
        *(f"poke(0, {word}.to_bytes(8, 'little') * 512)" for word in words),
        *(
            f"random.seed({seed}); poke(0, b''.join(random.choice({words}).to_bytes(8, 'little') for _ in range(512)))"
            for seed in range(40)
        ),
    ]
    for code in codes:
        run(client, code)
        for cell in (0, 1, 1 << 53, cell_number(control)):
            for start in (0, 1, 4095, 2 << 20, 6 << 20, 1 << 52, 1 << 53, 1 << 60):
                reply = control.request("record", cell=cell, **{"from": start})
                assert reply["ok"]
                assert 0 <= reply["from"] <= reply["next"] <= reply["total"] <= 1 << 53
    assert run(client, "1 + 1").result() == "2"
    # While another process goes on writing, PID 1 still answers.
    run(client, "import threading; stop = False")
    scribble = f"""
def scribble():
    while not stop: poke(0, b''.join(random.choice({words}).to_bytes(8, 'little') for _ in range(100)))
thread = threading.Thread(target=scribble); thread.start()
"""
    run(client, scribble)
    for start in range(500):
        assert control.request("record", cell=cell_number(control), **{"from": start * 1000})["ok"]
    assert run(client, "stop = True; thread.join(); 1").result() == "1"


def cell_number(control: Control) -> int:
    cell = control.hello()["cell"]
    return int(cell["number"]) if cell else 0


def test_a_hole_in_the_recording_does_not_hurt(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, GARBAGE)
    code = "libc = ctypes.CDLL(None); libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(8 << 20), 9)"
    assert run(client, code).result() == "0"  # MADV_REMOVE
    # The kernel that takes it away from itself ends by that, and only the kernel.
    Cell(client, "libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(8 << 20))")
    assert control.event("exit")["signal"] == 11
    assert control.request("record", cell=cell_number(control), **{"from": 0})["ok"]
    assert control.request("ping")["ok"]
