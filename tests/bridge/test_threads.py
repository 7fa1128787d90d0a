"""What a thread says belongs to the cell that started it."""

from __future__ import annotations

from collections import defaultdict

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from support import PATIENCE, Bridge, Cell, Message, run

SAYS = """
import sys, threading
from IPython.display import display
def say(name):
    print('out', name, flush=True)
    print('err', name, file=sys.stderr, flush=True)
    display({'text/plain': 'display ' + name}, raw=True)
    sys.displayhook('result ' + name)
go = threading.Event()
"""


@pytest.fixture
def client(bridge: Bridge) -> BlockingKernelClient:
    client = bridge.client(bridge.controller().request("start"))
    run(client, SAYS)
    return client


class Texts:
    """What each message id said, as it comes."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.texts: dict[str, list[str]] = defaultdict(list)
        self._begun: dict[tuple[str, str], str] = defaultdict(str)
        """Lines that a message ended within, by request and stream."""
        self.idle: set[str] = set()

    def take(self) -> None:
        message: Message = self.client.get_iopub_msg(timeout=PATIENCE)
        parent, content = message["parent_header"].get("msg_id"), message["content"]
        if content.get("execution_state") == "idle":
            self.idle.add(parent)
        elif message["msg_type"] == "stream":
            key = (parent, content["name"])
            *lines, self._begun[key] = (self._begun[key] + content["text"]).split("\n")
            if lines:
                self.texts[parent] += lines
        elif message["msg_type"] in ("display_data", "execute_result"):
            self.texts[parent].append(content["data"]["text/plain"].strip("'"))

    def until(self, last: str, msg_id: str) -> None:
        """Takes messages up to the last text of a thread, and the end of a cell."""
        while msg_id not in self.idle or not any(last in texts for texts in self.texts.values()):
            self.take()


def everything(name: str) -> list[str]:
    return [f"out {name}", f"err {name}", f"display {name}", f"result {name}"]


def test_output_after_idle_goes_to_the_cell_that_started_the_thread(client: BlockingKernelClient) -> None:
    first = run(client, "thread = threading.Thread(target=lambda: (go.wait(), say('a'))); thread.start()").msg_id
    # Another cell is the latest by then, and prints too while the thread does.
    texts = Texts(client)
    second = client.execute("print('second'); go.set(); thread.join(); print('still second')")
    texts.until("result a", second)
    assert texts.texts == {first: everything("a"), second: ["second", "still second"]}


def test_output_between_cells_goes_to_the_cell_that_started_the_thread(client: BlockingKernelClient) -> None:
    code = """
def wait_and_say():
    go.wait()
    say('a')
threading.Thread(target=wait_and_say).start()
"""
    first = run(client, code).msg_id
    texts = Texts(client)
    # No cell runs when the thread goes on: the timer fires when the loop is free again.
    second = client.execute("import asyncio; _ = asyncio.get_running_loop().call_later(0.1, go.set)")
    texts.until("result a", second)
    assert texts.texts == {first: everything("a")}


def test_a_thread_of_a_thread_belongs_to_the_same_cell(client: BlockingKernelClient) -> None:
    code = """
class Inner(threading.Thread):
    def run(self):
        say('inner')
def outer():
    go.wait()
    inner = Inner(); inner.start(); inner.join()
    timer = threading.Timer(0, say, ['timer']); timer.start(); timer.join()
thread = threading.Thread(target=outer); thread.start()
"""
    first = run(client, code).msg_id
    texts = Texts(client)
    second = client.execute("go.set(); thread.join()")
    texts.until("result timer", second)
    assert texts.texts == {first: everything("inner") + everything("timer")}


def test_a_worker_belongs_to_the_cell_that_made_it(client: BlockingKernelClient) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
executor = ThreadPoolExecutor(1)
executor.submit(int).result()
"""
    first = run(client, code).msg_id
    texts = Texts(client)
    second = client.execute("executor.submit(say, 'worker').result()")
    texts.until("result worker", second)
    assert texts.texts == {first: everything("worker")}


def test_to_thread_belongs_to_the_cell_that_calls_it(client: BlockingKernelClient) -> None:
    run(client, "import asyncio\nawait asyncio.to_thread(int)")
    texts = Texts(client)
    second = client.execute("await asyncio.to_thread(say, 'a')")
    texts.until("result a", second)
    assert texts.texts == {second: everything("a")}


def test_an_exception_in_a_thread_is_shown_where_it_was_started(client: BlockingKernelClient) -> None:
    first = run(client, "thread = threading.Thread(target=lambda: (go.wait(), 1 / 0)); thread.start()").msg_id
    cell = Cell(client, "go.set(); thread.join()")
    shown = ""
    while "ZeroDivisionError" not in shown:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["msg_type"] == "stream":
            assert message["parent_header"]["msg_id"] == first
            shown += message["content"]["text"]
    assert "threads.py" not in shown
    cell.finish()


def test_a_thread_has_no_context_but_its_own(client: BlockingKernelClient) -> None:
    code = """
import contextvars
variable = contextvars.ContextVar('variable', default='unset')
variable.set('set')
seen = []
thread = threading.Thread(target=lambda: seen.append(variable.get()))
thread.start(); thread.join()
seen, vars(thread).keys() & {'_cell_of_start'}
"""
    assert run(client, code).result() == "(['unset'], set())"


def test_many_threads_of_many_cells_do_not_mix(client: BlockingKernelClient) -> None:
    code = """
def noise(name):
    # A `print` is several writes, between which the cell's other threads may write.
    for i in range(50): sys.stdout.write(f'{name} {i}\\n')
print('cell {0}')
threads = globals().get('threads', []) + [threading.Thread(target=noise, args=('n{0}',)) for _ in range(4)]
[thread.start() for thread in threads[-4:]];
"""
    cells = {client.execute(code.replace("{0}", str(number))): str(number) for number in range(10)}
    last = client.execute("[thread.join() for thread in threads]; sys.stdout.flush()")
    texts = Texts(client)
    while last not in texts.idle:
        texts.take()
    for msg_id, number in cells.items():
        expected = sorted([f"cell {number}"] + [f"n{number} {i}" for i in range(50)] * 4)
        assert sorted(texts.texts[msg_id]) == expected
