"""The launcher's promises about output: nothing lost, in order, in messages of bounded size."""

from __future__ import annotations

import re
import time

import pytest
import zmq
from jupyter_client.blocking.client import BlockingKernelClient

from support import PATIENCE, Bridge, Cell, run, wait_until

MIB = 1 << 20


@pytest.fixture
def client(bridge: Bridge) -> BlockingKernelClient:
    return bridge.client(bridge.controller().request("start"))


def kernel_memory(client: BlockingKernelClient) -> int:
    """Peak resident memory of the kernel, in bytes."""
    return int(run(client, "import resource; resource.getrusage(resource.RUSAGE_SELF).ru_maxrss").result()) << 10


def wait_for_stall(client: BlockingKernelClient, pid: int) -> None:
    """Returns when the kernel has no more to do than wait for its reader."""
    used = -1.0
    while used != (used := cpu_time(pid)):
        time.sleep(0.3)


def cpu_time(pid: int) -> float:
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return float(fields[11]) + float(fields[12])


def kernel_pid(client: BlockingKernelClient) -> int:
    return int(run(client, "import os; os.getpid()").result())


def test_20_000_displays_to_a_reader_that_stalls(client: BlockingKernelClient) -> None:
    pid = kernel_pid(client)
    cell = Cell(client, "for i in range(20_000): display(i)")
    wait_for_stall(client, pid)
    cell.finish(60)
    assert [int(content["data"]["text/plain"]) for content in cell.of("display_data")] == list(range(20_000))


def test_200_000_prints_to_a_reader_that_stalls(client: BlockingKernelClient) -> None:
    pid = kernel_pid(client)
    cell = Cell(client, "for i in range(200_000): print(i)")
    wait_for_stall(client, pid)
    assert (cell.finish(60).text() == "".join(f"{i}\n" for i in range(200_000))) is True


def test_a_huge_print_comes_whole_in_small_messages(client: BlockingKernelClient) -> None:
    before = kernel_memory(client)
    cell = run(client, f"print('x' * {100 * MIB})", 60)
    sizes = [len(content["text"]) for content in cell.of("stream")]
    assert max(sizes) <= 256 * 1024
    assert sum(sizes) == 100 * MIB + 1
    # The text itself, and little more.
    assert kernel_memory(client) - before < 130 * MIB


def test_characters_are_not_cut(client: BlockingKernelClient) -> None:
    code = "text = 'aé€😀' * 100_000; print(text, end=''); import os; os.write(2, text.encode())"
    cell = run(client, code + "; None")
    # Compared by `is True`, since pytest would show the difference.
    assert (cell.text() == "aé€😀" * 100_000) is True
    assert (cell.text("stderr") == "aé€😀" * 100_000) is True
    assert max(len(content["text"].encode()) for content in cell.of("stream")) <= 256 * 1024


def test_an_endless_print_to_a_reader_that_stalls_takes_bounded_memory(
    bridge: Bridge, client: BlockingKernelClient
) -> None:
    pid = kernel_pid(client)
    before = kernel_memory(client)
    cell = Cell(client, "while True: print('x' * 1000)")
    wait_for_stall(client, pid)
    peak = int(re.findall(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read())[0]) << 10
    assert peak - before < 64 * MIB
    # An interrupt gets through without the reader's help.
    client.control_channel.send(client.session.msg("interrupt_request", {}))
    assert client.get_control_msg(timeout=5)["msg_type"] == "interrupt_reply"
    assert client.get_shell_msg(timeout=5)["content"]["ename"] == "KeyboardInterrupt"
    while not (cell.messages and cell._is_idle(cell.messages[-1])):
        message = client.get_iopub_msg(timeout=5)
        if message["parent_header"].get("msg_id") == cell.msg_id:
            cell.messages.append(message)
    assert "timed out" not in cell.text("stderr")
    assert run(client, "1 + 1").result() == "2"


def test_displays_of_a_megabyte_to_a_reader_that_stalls_take_bounded_memory(
    bridge: Bridge, client: BlockingKernelClient
) -> None:
    pid = kernel_pid(client)
    before = kernel_memory(client)
    with zmq.Context() as context, context.socket(zmq.SUB) as stalled:
        stalled.rcvhwm = 1
        stalled.linger = 0
        stalled.connect(f"ipc://{bridge.runtime_dir}/k1-4")
        stalled.subscribe(b"")
        wait_until("a subscription", lambda: run(client, "1") and stalled.poll(100))
        cell = Cell(client, "for i in range(300): display({'text/plain': 'x' * 1_000_000}, raw=True)")
        wait_for_stall(client, pid)
    peak = int(re.findall(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read())[0]) << 10
    assert peak - before < 96 * MIB
    assert len(cell.finish(60).of("display_data")) == 300


def test_an_output_that_is_too_large_becomes_a_note(client: BlockingKernelClient) -> None:
    for code, kind in (
        (f"display({{'text/plain': 'x' * {17 * MIB}}}, raw=True)", "display_data"),
        (f"display({{'application/json': ['x' * {17 * MIB}]}}, raw=True)", "display_data"),
        (f"class Big:\n    def __repr__(self): return 'x' * {17 * MIB}\nBig()", "execute_result"),
    ):
        (content,) = run(client, code).of(kind)
        assert "left out: the limit is 16 MiB" in content["data"]["text/plain"]
    (content,) = run(client, f"display({{'text/plain': 'x' * {15 * MIB}}}, raw=True)").of("display_data")
    assert len(content["data"]["text/plain"]) == 15 * MIB


def test_a_huge_exception_is_cut(client: BlockingKernelClient) -> None:
    cell = run(client, f"raise ValueError('x' * {20 * MIB})")
    assert cell.reply["ename"] == "ValueError"
    (content,) = cell.of("error")
    assert sum(map(len, content["traceback"])) < MIB
    assert len(content["evalue"]) < MIB
    assert len(cell.reply["evalue"]) < MIB


def test_outputs_come_in_the_order_of_the_program(client: BlockingKernelClient) -> None:
    code = """
import os, subprocess, sys
for i in range(300):
    print('a', i)
    display(i)
    subprocess_free = os.write(1, b'b %d\\n' % i)
    sys.stdout.flush()
print('end')
subprocess.run(['echo', 'child'])
"""
    cell = run(client, code)
    seen = []
    for message in cell.messages:
        if message["msg_type"] == "stream":
            seen += message["content"]["text"].splitlines()
        elif message["msg_type"] == "display_data":
            seen.append("d " + message["content"]["data"]["text/plain"])
    assert seen[-2:] == ["end", "child"]
    expected = [line for i in range(300) for line in (f"a {i}", f"d {i}", f"b {i}")]
    assert seen[:-2] == expected


def test_text_comes_before_the_idle_status_of_its_cell(client: BlockingKernelClient) -> None:
    for i in range(100):
        assert run(client, f"import os; print({i}); _ = os.system('echo {i}')").text() == f"{i}\n{i}\n"


def test_text_before_a_sudden_end_is_sent(bridge: Bridge, client: BlockingKernelClient) -> None:
    cell = Cell(client, "import os; print('last words', flush=True); os._exit(0)")
    while not cell.of("stream"):
        message = client.get_iopub_msg(timeout=5)
        if message["parent_header"].get("msg_id") == cell.msg_id:
            cell.messages.append(message)
    assert cell.text() == "last words\n"


def test_forked_children_can_print(client: BlockingKernelClient) -> None:
    code = """
import multiprocessing, threading
stop = threading.Event()
def noise():
    while not stop.is_set(): print('.', end='', flush=True)
thread = threading.Thread(target=noise); thread.start()
context = multiprocessing.get_context('fork')
for i in range(10):
    child = context.Process(target=print, args=(f'child {i}',), kwargs={'flush': True})
    child.start(); child.join(20); assert child.exitcode == 0, child
stop.set(); thread.join()
import time; time.sleep(0.3)
"""
    cell = run(client, code, 60)
    assert cell.reply["status"] == "ok", cell.reply
    for i in range(10):
        assert f"child {i}" in cell.text().replace(".", "")


def test_odd_text_is_sent(client: BlockingKernelClient) -> None:
    assert run(client, r"print('null \0 and \ud800 surrogate')").text() == "null \0 and \\ud800 surrogate\n"
    assert run(client, r"print('\udcff')").text() == "\\udcff\n"
    assert run(client, r"raise ValueError('\ud800')").reply["evalue"] == "\\ud800"
    (content,) = run(client, r"display({'text/plain': '\ud800'}, raw=True)").of("display_data")
    assert content["data"]["text/plain"] == "\\ud800"
    assert run(client, "import sys; sys.stdout.write(5)").reply["ename"] == "TypeError"
    assert run(client, "1").result() == "1"


def test_modules_in_the_work_directory_can_be_imported(client: BlockingKernelClient) -> None:
    code = """
import os, tempfile
os.chdir(tempfile.mkdtemp())
with open('bridge.py', 'w') as file: file.write('mine = 7')
import bridge
bridge.mine
"""
    assert run(client, code).result() == "7"


def test_threads_printing_at_once_lose_nothing(client: BlockingKernelClient) -> None:
    code = """
import sys, threading
def work(n):
    for i in range(2000):
        sys.stdout.write(f'{n} {i}\\n')
        if i % 50 == 0: sys.stdout.flush()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; None
"""
    lines = run(client, code, 60).text().split()
    assert len(lines) == 4 * 2000 * 2


def test_what_was_said_before_an_exit_of_the_process_comes_out(bridge: Bridge) -> None:
    control = bridge.controller()
    code = """
import os, sys, threading
display('shown')
print('x' * 1_000_000)
thread = threading.Thread(target=print, args=('from a thread',)); thread.start(); thread.join()
os.system('echo from a child')
print('last words', file=sys.stderr, end='')
os._exit(3)
"""
    for _ in range(10):
        client = bridge.client(control.request("start"))
        cell = Cell(client, code)
        assert control.event("exit")["code"] == 3
        while not cell.text("stderr"):
            cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
        assert cell.text("stderr") == "last words"
        assert sorted(map(len, cell.text().split("\n"))) == [0, 12, 13, 1_000_000]
        assert [content["data"]["text/plain"] for content in cell.of("display_data")] == ["'shown'"]


def test_an_exit_of_the_process_does_not_wait_for_a_reader_that_stalls(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    code = """
import os, threading
go_on = threading.Event()
def leave(): go_on.wait(); os._exit(3)
threading.Thread(target=leave).start()
for i in range(20_000):
    display(i)
    if i == 1_500: go_on.set()
"""
    # Nobody reads what it says.
    Cell(client, code)
    assert control.event("exit")["code"] == 3


def test_forked_children_exit_at_once(client: BlockingKernelClient) -> None:
    code = """
import os, time
begun = time.monotonic()
for i in range(20):
    pid = os.fork()
    if pid == 0: os._exit(i)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == i
time.monotonic() - begun
"""
    assert float(run(client, code).result()) < 2
    assert run(client, "print('still here', flush=True)").text() == "still here\n"
