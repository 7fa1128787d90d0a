"""One interrupt is one KeyboardInterrupt, in the cell that it was meant for."""

from __future__ import annotations

import time

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from support import PATIENCE, Bridge, Cell, Control, Message, run, wait_until

COUNTING = """
import re
count = 0
try:
    print('going', flush=True)
    {forever}
except KeyboardInterrupt:
    count += 1
    try:
        input('may I go on?')
    except KeyboardInterrupt:
        count += 1
"""
HOLDS_THE_GIL = "re.match(r'(a+)+$', 'a' * 64 + 'b')"
LETS_IT_GO = "while True: pass"


@pytest.fixture
def control(bridge: Bridge) -> Control:
    return bridge.controller()


@pytest.fixture
def client(bridge: Bridge, control: Control) -> BlockingKernelClient:
    return bridge.client(control.request("start"))


def going(client: BlockingKernelClient, code: str) -> Cell:
    """A cell that is known to run."""
    cell = Cell(client, code)
    client.allow_stdin = True
    while not cell.of("stream"):
        cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
    return cell


def ask(client: BlockingKernelClient) -> str:
    """Sends an `interrupt_request`, and returns its id."""
    message = client.session.msg("interrupt_request", {})
    client.control_channel.send(message)
    return str(message["header"]["msg_id"])


def answer(client: BlockingKernelClient, msg_id: str) -> Message:
    while (reply := client.get_control_msg(timeout=PATIENCE))["msg_type"] == "kernel_info_reply":
        pass
    assert (reply["msg_type"], reply["parent_header"]["msg_id"]) == ("interrupt_reply", msg_id)
    return dict(reply["content"])


def wait_for_gil_to_be_held(client: BlockingKernelClient) -> None:
    """Returns when the kernel's control thread does not answer."""
    asked = answered = 0
    while asked == answered:
        client.control_channel.send(client.session.msg("kernel_info_request", {}))
        asked += 1
        if client.control_channel.socket.poll(300):
            assert client.get_control_msg()["msg_type"] == "kernel_info_reply"
            answered += 1


def let_go_on(client: BlockingKernelClient) -> None:
    """Answers the cell's question: whatever was to come before has come."""
    client.get_stdin_msg(timeout=PATIENCE)
    client.input("yes")


@pytest.mark.parametrize("named", [True, False])
def test_a_late_interrupt_request_is_not_a_second_interrupt(
    control: Control, client: BlockingKernelClient, named: bool
) -> None:
    cell = going(client, COUNTING.format(forever=HOLDS_THE_GIL))
    wait_for_gil_to_be_held(client)
    msg_id = ask(client)
    assert control.request("interrupt", generation=1, **({"msg_id": msg_id} if named else {}))["ok"]
    assert answer(client, msg_id) == {"status": "ok"}
    let_go_on(client)
    cell.finish()
    assert run(client, "count").result() == "1"


def test_a_late_signal_of_the_bridge_is_not_a_second_interrupt(control: Control, client: BlockingKernelClient) -> None:
    cell = going(client, COUNTING.format(forever=LETS_IT_GO))
    msg_id = ask(client)
    assert answer(client, msg_id) == {"status": "ok"}
    assert control.request("interrupt", generation=1, msg_id=msg_id)["ok"]
    let_go_on(client)
    cell.finish()
    assert run(client, "count").result() == "1"


def test_each_interrupt_of_a_cell_that_goes_on_arrives(control: Control, client: BlockingKernelClient) -> None:
    cell = going(
        client,
        """
import re
count = 0
print('going', flush=True)
while count < 4:
    try:
        re.match(r'(a+)+$', 'a' * 64 + 'b')
    except KeyboardInterrupt:
        count += 1
        input(str(count))
""",
    )
    for expected in range(1, 5):
        wait_for_gil_to_be_held(client)
        msg_id = ask(client)
        fields = {"msg_id": msg_id} if expected % 2 else {}
        assert control.request("interrupt", generation=1, **fields)["ok"]
        assert answer(client, msg_id) == {"status": "ok"}
        assert client.get_stdin_msg(timeout=PATIENCE)["content"]["prompt"] == str(expected)
        client.input("")
    cell.finish()
    assert run(client, "count").result() == "4"


def test_an_interrupt_of_an_idle_kernel_does_not_hit_the_next_cell(
    control: Control, client: BlockingKernelClient
) -> None:
    for _ in range(50):
        msg_id = ask(client)
        assert answer(client, msg_id) == {"status": "ok", "idle": True}
        assert control.request("interrupt", generation=1)["ok"]
        assert run(client, "sum(range(10_000))").reply["status"] == "ok"
    assert control.hello()["kernel"]["generation"] == 1


def test_an_interrupt_meant_for_the_last_cell_does_not_hit_the_next(
    control: Control, client: BlockingKernelClient
) -> None:
    cell = going(client, COUNTING.format(forever=HOLDS_THE_GIL))
    wait_for_gil_to_be_held(client)
    message = client.session.msg("interrupt_request", {})
    control.request("interrupt", generation=1, msg_id=message["header"]["msg_id"])
    let_go_on(client)
    cell.finish()
    cell = going(client, "print('going', flush=True); input('now?')")
    # On its way for so long.
    client.control_channel.send(message)
    assert answer(client, message["header"]["msg_id"]) == {"status": "ok"}
    let_go_on(client)
    assert cell.finish().reply["status"] == "ok"


def test_interrupts_at_any_moment_leave_a_kernel_that_works(control: Control, client: BlockingKernelClient) -> None:
    """Signals without any request, so that they land before, in and after the user's code. No reply is lost by one."""
    outcomes = set()
    for i in range(300):
        cell = Cell(client, f"sum(range({i * 10}))")
        for _ in range(i % 4):
            assert control.request("interrupt", generation=1)["ok"]
        outcomes.add(cell.finish().reply.get("ename"))
    assert outcomes <= {None, "KeyboardInterrupt"}
    assert control.hello()["kernel"] | {"key": ""} == {"generation": 1, "key": "", "busy": False}
    assert run(client, "1 + 1").result() == "2"


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)"])
def test_an_interrupt_as_a_cell_begins_is_not_lost(client: BlockingKernelClient, code: str) -> None:
    for round_number in range(60):
        cell = Cell(client, code)
        time.sleep(round_number % 20 / 4000)
        while "idle" in answer(client, ask(client)):
            pass
        client.kernel_info()
        assert cell.finish(patience=5).reply["status"] == "error", round_number


def test_an_interrupt_before_the_users_code_is_the_cells(client: BlockingKernelClient) -> None:
    hook = """
import time
def hook(*_):
    print('in the hook', flush=True)
    time.sleep(0.3)
get_ipython().events.register('pre_run_cell', hook)
"""
    run(client, hook)
    cell = going(client, "time.sleep(60)")
    assert answer(client, ask(client)) == {"status": "ok"}
    assert cell.finish(patience=5).reply["ename"] == "KeyboardInterrupt"
    assert "Error in callback" not in cell.text()


def test_a_signal_that_finds_no_code_running_is_not_sent(control: Control, client: BlockingKernelClient) -> None:
    message = client.session.msg("interrupt_request", {})
    msg_id = message["header"]["msg_id"]
    reply = control.request("interrupt", generation=1, msg_id=msg_id)
    assert reply == {"type": "reply", "id": reply["id"], "ok": True, "idle": True}
    cell = going(client, COUNTING.format(forever=LETS_IT_GO))
    client.control_channel.send(message)
    assert answer(client, msg_id) == {"status": "ok"}
    let_go_on(client)
    cell.finish()
    assert run(client, "count").result() == "1"


def test_a_top_level_await_is_interrupted(control: Control, client: BlockingKernelClient) -> None:
    cell = going(client, "import asyncio\nprint('going', flush=True)\nawait asyncio.sleep(1000)")
    assert answer(client, ask(client)) == {"status": "ok"}
    # It wakes when the loop does.
    client.kernel_info()
    assert cell.finish().reply["status"] == "error"
    assert run(client, "1 + 1").result() == "2"


def test_a_widgets_callback_is_interrupted(client: BlockingKernelClient) -> None:
    code = """
from comm import get_comm_manager
def callback(comm, message):
    try:
        print('going', flush=True)
        while True: pass
    except KeyboardInterrupt:
        print('interrupted', flush=True)
get_comm_manager().register_target('test', callback)
"""
    run(client, code)
    client.shell_channel.send(client.session.msg("comm_open", {"comm_id": "a", "target_name": "test", "data": {}}))
    texts: list[str] = []

    def text() -> str:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])
        return "".join(texts)

    wait_until("the callback", lambda: "going" in text())
    assert answer(client, ask(client)) == {"status": "ok"}
    wait_until("the interrupt", lambda: "interrupted" in text())
    assert run(client, "1 + 1").result() == "2"


def test_text_that_was_printed_before_an_interrupt_is_not_lost(client: BlockingKernelClient) -> None:
    for _ in range(8):
        cell = Cell(client, "i = 0\nwhile True:\n    print(i)\n    i += 1")
        while len(cell.of("stream")) < 3:
            message = client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") == cell.msg_id:
                cell.messages.append(message)
        assert answer(client, ask(client)) == {"status": "ok"}
        printed = cell.finish().text()
        count = int(run(client, "i").result())
        # The last line or its end may not have been printed yet.
        assert printed.split("\n")[:count] == [str(number) for number in range(count)]


def test_text_that_an_interrupt_follows_at_once_comes_once(control: Control, client: BlockingKernelClient) -> None:
    for _ in range(100):
        cell = going(client, "print('once', flush=True)\nwhile True: pass")
        # The call that printed it may not have returned yet.
        assert control.request("interrupt", generation=1)["ok"]
        assert cell.finish().text() == "once\n"


def test_an_interrupt_within_a_print_does_not_end_the_timed_flushes(
    control: Control, client: BlockingKernelClient
) -> None:
    code = """
import os, signal, sys
publisher = sys.stdout.pub_thread
def schedule(action):
    del publisher.schedule
    os.kill(os.getpid(), signal.SIGINT)
    publisher.schedule(action)
publisher.schedule = schedule
print('once')
"""
    (error,) = run(client, code).of("error")
    assert error["ename"] == "KeyboardInterrupt"
    cell = going(client, "print('comes by itself')\nwhile True: pass")
    assert control.request("interrupt", generation=1)["ok"]
    cell.finish()


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", LETS_IT_GO, "while True: print('more')"])
def test_the_traceback_of_an_interrupt_shows_no_call_of_ours(client: BlockingKernelClient, code: str) -> None:
    cell = going(client, f"print('going', flush=True)\n{code}")
    ask(client)
    [error] = cell.finish().of("error")
    assert error["ename"] == "KeyboardInterrupt"
    traceback = "".join(error["traceback"])
    assert "Cell" in traceback and "/bridge/" not in traceback, traceback
