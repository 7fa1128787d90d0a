"""The control messages of PROTOCOL.md."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support import HEADER, Bridge, Cell, alive, listeners, run, state_of, wait_until

StartBridge = Callable[..., Bridge]


def test_hello_tells_what_the_session_is(bridge: Bridge) -> None:
    control = bridge.connect()
    hello = control.hello()
    assert hello["v"] == 1
    assert len(bytes.fromhex(hello["session"])) == 16
    assert (hello["lease"], hello["kernel"], hello["last_exit"]) == ("owned", None, None)
    started = control.request("start")
    kernel = {"generation": 1, "key": started["key"], "busy": False}
    bridge.client(started)
    assert control.hello() == {**hello, "id": 3, "kernel": kernel}


def test_a_second_controller_is_told_that_the_session_is_held(bridge: Bridge) -> None:
    first = bridge.controller()
    second = bridge.connect()
    assert second.hello()["code"] == "held"
    assert second.receive() is None
    assert first.request("ping")["ok"]
    session = first.hello()["session"]
    first.close()
    third = bridge.connect()
    assert wait_until("the session to be free", third.hello)["session"] == session


def test_a_controller_that_lost_its_connection_takes_the_session_back(bridge: Bridge) -> None:
    first = bridge.connect()
    session = first.request("hello", v=1, holder="us")["session"]
    generation = first.request("start", fds=0)["generation"]
    for stranger in ({"holder": "them"}, {"holder": None}, {}):
        assert bridge.connect().request("hello", v=1, **stranger)["code"] == "held"
    second = bridge.connect()
    hello = second.request("hello", v=1, holder="us")
    assert (hello["session"], hello["kernel"]["generation"]) == (session, generation)
    assert first.receive() is None
    assert second.request("ping")["ok"]
    assert bridge.connect().hello()["code"] == "held"


def test_a_controller_without_a_name_is_not_known_again(bridge: Bridge) -> None:
    bridge.controller()
    assert bridge.connect().request("hello", v=1, holder=None)["code"] == "held"


@pytest.mark.parametrize(
    ("request_", "code"),
    [({"type": "dance"}, "unknown"), ({"type": ["start"]}, "unknown"), ({}, "unknown")],
)
def test_an_unknown_request_is_refused(bridge: Bridge, request_: dict[str, object], code: str) -> None:
    control = bridge.controller()
    control.send({**request_, "id": 7})
    assert control.reply(7)["code"] == code
    assert control.request("ping")["ok"]


def test_a_request_before_hello_is_refused(bridge: Bridge) -> None:
    assert bridge.connect().request("start")["code"] == "hello"


def test_another_version_is_refused(bridge: Bridge) -> None:
    control = bridge.connect()
    assert control.request("hello", v=2)["code"] == "version"
    assert control.receive() is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER.pack(0, 0, 1 << 31),
        HEADER.pack(0, 0, 0),
        HEADER.pack(1, 0, 2) + b"{}",
        HEADER.pack(0, 1, 2) + b"{}",
        HEADER.pack(0, 0, 2) + b"[]",
        HEADER.pack(0, 0, 3) + b"\xff\xfe{",
        HEADER.pack(0, 0, 50_000) + b"[" * 50_000,
        HEADER.pack(0, 0, 5_002) + b'{"' + b"a" * 5_000,
    ],
)
def test_garbage_costs_only_the_connection_it_came_on(bridge: Bridge, garbage: bytes) -> None:
    controller = bridge.controller()
    forger = bridge.connect()
    forger.sock.sendall(garbage)
    try:
        assert forger.receive() is None
    except ConnectionResetError:
        pass
    assert controller.request("ping")["ok"]


def test_odd_fields_are_no_harm(bridge: Bridge) -> None:
    control = bridge.controller()
    for fields in ({"ms": "soon"}, {"ms": -1}, {"ms": 1e300}, {"ms": True}, {}, {"ms": 5, "grace_ms": None}):
        control.send({"type": "deadline", **fields})
    control.send({"type": "no such notice"})
    control.send({"type": "interrupt", "id": {"a": 1}, "generation": None})
    reply = control.receive()
    assert reply is not None
    assert (reply["id"], reply["code"]) == ({"a": 1}, "gone")
    assert control.request("start", fds=3)["code"] == "fds"
    assert control.request("start", fds=5)["code"] == "fds"


def test_a_crowd_of_silent_peers_does_not_shut_the_controller_out(bridge: Bridge) -> None:
    controller = bridge.controller()
    for _ in range(40):
        bridge.connect()
    assert controller.request("ping")["ok"]


def test_a_kernel_keeps_state_and_a_restart_does_not(bridge: Bridge) -> None:
    control = bridge.controller()
    first = control.request("start")
    client = bridge.client(first)
    run(client, "x = 20")
    assert run(client, "x + 1").result() == "21"
    second = control.request("start")
    assert control.event("exit") == {"type": "exit", "generation": 1, "code": None, "signal": 9, "oom": False}
    assert (first["generation"], second["generation"]) == (1, 2)
    assert first["key"] != second["key"]
    assert run(bridge.client(second), "x").reply["ename"] == "NameError"


def test_a_start_that_fails_leaves_no_listeners(bridge: Bridge) -> None:
    control = bridge.controller()
    control.request("ping")
    limits = resource.prlimit(bridge.process.pid, resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir(f"/proc/{bridge.process.pid}/fd")))
    # Enough for some of them.
    resource.prlimit(bridge.process.pid, resource.RLIMIT_NOFILE, (highest + 4, limits[1]))
    assert control.request("start")["code"] == "fork"
    assert f"{bridge.runtime_dir}/k1-" not in Path("/proc/net/unix").read_text()
    resource.prlimit(bridge.process.pid, resource.RLIMIT_NOFILE, limits)
    assert control.request("start")["generation"] == 1


def test_interrupt_ends_the_cell_and_keeps_the_state(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    run(client, "x = 1")
    cell = Cell(client, "print('going', flush=True)\nwhile True: pass")
    while not cell.of("stream"):
        cell.messages.append(client.get_iopub_msg(timeout=10))
    assert control.hello()["kernel"]["busy"] is True
    assert control.request("interrupt", generation=7)["code"] == "gone"
    assert control.request("interrupt", generation=1)["ok"]
    assert cell.finish().reply["ename"] == "KeyboardInterrupt"
    assert run(client, "x").result() == "1"
    wait_until("the kernel to be idle", lambda: control.hello()["kernel"]["busy"] is False)


def test_the_exit_code_is_reported(bridge: Bridge) -> None:
    control = bridge.controller()
    Cell(bridge.client(control.request("start")), "import os; os._exit(3)")
    report = {"type": "exit", "generation": 1, "code": 3, "signal": None, "oom": False}
    assert control.event("exit") == report
    hello = control.hello()
    assert (hello["kernel"], hello["last_exit"]) == (None, report)
    assert control.request("interrupt", generation=1)["code"] == "gone"
    assert control.request("start")["generation"] == 2


def test_shutdown_request_is_a_normal_exit(bridge: Bridge) -> None:
    control = bridge.controller()
    bridge.client(control.request("start")).shutdown()
    assert control.event("exit")["code"] == 0


def test_a_killed_kernel_is_reported(bridge: Bridge) -> None:
    control = bridge.controller()
    Cell(bridge.client(control.request("start")), "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert control.event("exit") == {"type": "exit", "generation": 1, "code": None, "signal": 9, "oom": False}


def test_an_interrupt_wakes_a_stopped_kernel(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    kernel = int(run(client, "import os, signal; os.getpid()").result())
    cell = Cell(client, "os.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass")
    wait_until("the kernel to stop", lambda: state_of(kernel) == "T")
    control.request("interrupt", generation=1)
    # An interrupt may come before the reply and cost it; that the cell ended is what counts.
    while not cell.messages or not cell._is_idle(cell.messages[-1]):
        message = client.get_iopub_msg(timeout=10)
        if message["parent_header"].get("msg_id") == cell.msg_id:
            cell.messages.append(message)
    assert run(client, "1 + 1").result() == "2"


def test_a_kernel_that_stops_and_goes_on_all_the_time_is_nothing_to_tell(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    storm = """
import os, signal, subprocess, sys
code = f"import os\\nfor _ in range(20000): os.kill({os.getpid()}, 19); os.kill({os.getpid()}, 18)"
subprocess.Popen([sys.executable, "-c", code]).wait()
"""
    run(client, storm, patience=60)
    assert control.request("ping")["ok"]
    assert not control.events


def test_shutdown_ends_everything(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    pid = int(run(client, "import os; os.getpid()").result())
    assert control.request("shutdown")["ok"]
    assert bridge.exit_code() == 0
    assert not alive(pid)
    assert os.listdir(bridge.runtime_dir) == []


def test_a_termination_signal_is_a_shutdown(bridge: Bridge) -> None:
    control = bridge.controller()
    pid = int(run(bridge.client(control.request("start")), "import os; os.getpid()").result())
    bridge.process.terminate()
    assert bridge.exit_code() == 0
    assert not alive(pid)


def test_the_environment_of_a_kernel_holds_nothing_of_ours(bridge: Bridge) -> None:
    client = bridge.client(bridge.controller().request("start"))
    code = "import os, sys; [n for n in os.environ if n.startswith('CELLBLOCK_')], 'bridge' in sys.modules"
    assert run(client, code).result() == "([], False)"


def test_the_socket_link_passes_listeners(start_bridge: StartBridge) -> None:
    bridge = start_bridge(host_socket=True)
    control = bridge.accept()
    assert control.hello()["ok"]
    # Twice, since the second generation gets new ones.
    for generation in (1, 2):
        directory = f"{bridge.directory.name}/{generation}"
        os.mkdir(directory)
        fds = listeners(directory)
        started = control.request("start", fds, fds=5)
        for fd in fds:
            os.close(fd)
        assert started["generation"] == generation
        client = bridge.client(started, prefix=f"{directory}/h")
        assert run(client, "1 + 1").result() == "2"
        # Its own listeners work beside them.
        assert run(bridge.client(started), "2 + 2").result() == "4"


def test_listeners_of_a_message_that_is_read_in_two_parts_are_not_lost(start_bridge: StartBridge) -> None:
    bridge = start_bridge(host_socket=True)
    control = bridge.accept()
    control.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    control.hello()
    os.kill(bridge.process.pid, signal.SIGSTOP)
    wait_until("the bridge to stop", lambda: state_of(bridge.process.pid) == "T")
    # The bridge reads 64 KiB at a time: they end within the next message.
    control.send({"type": "ping", "pad": "x" * (65536 - 40 - HEADER.size)})
    fds = listeners(bridge.directory.name)
    control.send({"type": "start", "id": 7, "fds": 5}, fds)
    os.kill(bridge.process.pid, signal.SIGCONT)
    assert control.reply(7)["ok"]
    for fd in fds:
        os.close(fd)


def test_the_heartbeat_answers_on_both_listeners(start_bridge: StartBridge) -> None:
    import zmq

    bridge = start_bridge(host_socket=True)
    control = bridge.accept()
    control.hello()
    fds = listeners(bridge.directory.name)
    started = control.request("start", fds, fds=5)
    with zmq.Context() as context:
        for path in (f"{bridge.directory.name}/h-5", f"{bridge.runtime_dir}/k{started['generation']}-5"):
            with context.socket(zmq.REQ) as beat:
                beat.linger = 0
                beat.connect(f"ipc://{path}")
                beat.send(b"beat")
                assert beat.poll(10_000)
                assert beat.recv() == b"beat"


def test_the_bridge_dials_again(start_bridge: StartBridge) -> None:
    bridge = start_bridge(host_socket=True)
    first = bridge.accept()
    session = first.hello()["session"]
    first.close()
    assert bridge.accept().hello()["session"] == session


def test_descriptors_that_are_no_listeners_are_refused(start_bridge: StartBridge) -> None:
    bridge = start_bridge(host_socket=True)
    control = bridge.accept()
    control.hello()
    pair = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR)
    assert control.request("start", [null] * 4 + [pair[0].fileno()], fds=5)["code"] == "fds"
    assert control.request("start")["ok"]


def test_the_control_connection_of_a_stream_in_pieces(bridge: Bridge) -> None:
    control = bridge.connect()
    payload = json.dumps({"type": "hello", "id": 1, "v": 1}).encode()
    for byte in struct.pack(">BBI", 0, 0, len(payload)) + payload:
        control.sock.send(bytes([byte]))
    assert control.reply(1)["ok"]
