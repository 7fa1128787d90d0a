"""The other side of the benchmarks: `jupyter_client` and a bare ipykernel, told what to do by lines of JSON on stdin.

Each line is answered by one line of JSON on stdout. Times are in microseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.session import Session

Request = dict[str, Any]

CODE = "1+1"
TIMEOUT = 60
PORTS = {"shell_port": 1, "stdin_port": 2, "control_port": 3, "iopub_port": 4, "hb_port": 5}
QUIET_SECONDS = 0.1

clients: dict[str, BlockingKernelClient] = {}


def connection_info(prefix: str, key: str) -> Any:
    return {"transport": "ipc", "ip": prefix, "key": key, "signature_scheme": "hmac-sha256", **PORTS}


def client_of(prefix: str, key: str) -> BlockingKernelClient:
    """A client as `jupyter_client` makes it from a connection file of the ipc transport."""
    client = BlockingKernelClient()
    client.load_connection_info(connection_info(prefix, key))
    client.start_channels()
    client.wait_for_ready(timeout=TIMEOUT)
    return client


def on_connect(request: Request) -> Request:
    clients[request["name"]] = client_of(request["prefix"], request["key"])
    return {}


def interactive(client: BlockingKernelClient) -> None:
    """The call that users of `jupyter_client` are shown: it returns with the reply, once idle has come."""
    client.execute_interactive(CODE, allow_stdin=False, timeout=TIMEOUT, output_hook=lambda _: None)


def lean(client: BlockingKernelClient) -> None:
    """The least that gets reply and idle."""
    msg_id = client.execute(CODE, allow_stdin=False)
    while client.get_shell_msg(timeout=TIMEOUT)["parent_header"].get("msg_id") != msg_id:
        pass
    while True:
        message = client.get_iopub_msg(timeout=TIMEOUT)
        if message["parent_header"].get("msg_id") != msg_id or message["msg_type"] != "status":
            continue
        if message["content"]["execution_state"] == "idle":
            return


def flush(client: BlockingKernelClient) -> None:
    """Takes what other clients of the kernel caused, which is not to be paid for in a measured call."""
    while True:
        try:
            client.get_iopub_msg(timeout=QUIET_SECONDS)
        except Empty:
            return


WAYS: dict[str, Callable[[BlockingKernelClient], None]] = {"interactive": interactive, "lean": lean}


def on_warm(request: Request) -> Request:
    client, call = clients[request["name"]], WAYS[request["way"]]
    flush(client)
    call(client)
    times = []
    for _ in range(request["calls"]):
        begin = time.perf_counter_ns()
        call(client)
        times.append((time.perf_counter_ns() - begin) / 1000)
    return {"times": times}


def on_bare(_: Request) -> Request:
    """A bare ipykernel, from its spawn to its first reply. The request waits in the socket until the kernel listens."""
    with tempfile.TemporaryDirectory() as directory, zmq.Context() as context:
        prefix = os.path.join(directory, "k")
        session = Session(key=os.urandom(16).hex().encode())
        path = os.path.join(directory, "kernel.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(connection_info(prefix, session.key.decode()), file)
        begin = time.perf_counter_ns()
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", path, "--HistoryManager.hist_file=:memory:"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as kernel:
            try:
                with context.socket(zmq.DEALER) as shell:
                    shell.linger = 0
                    shell.reconnect_ivl = 2
                    shell.connect(f"ipc://{prefix}-1")
                    session.send(shell, "execute_request", {"code": CODE, "silent": False, "store_history": True})
                    if not shell.poll(TIMEOUT * 1000):
                        raise TimeoutError("the bare kernel did not answer")
                    took = (time.perf_counter_ns() - begin) / 1000
                    reply: Any = session.recv(shell, 0)[1]
            finally:
                kernel.kill()
        if reply["content"]["status"] != "ok":
            raise ValueError(f"the bare kernel answered {reply}")
        return {"times": [took]}


def on_throughput(request: Request) -> Request:
    """Runs code and counts the characters of its streams."""
    client = clients[request["name"]]
    flush(client)
    counted = 0

    def count(message: dict[str, Any]) -> None:
        nonlocal counted
        if message["msg_type"] == "stream":
            counted += len(message["content"]["text"])

    begin = time.perf_counter_ns()
    client.execute_interactive(request["code"], allow_stdin=False, timeout=TIMEOUT, output_hook=count)
    return {"times": [(time.perf_counter_ns() - begin) / 1000], "counted": counted}


HANDLERS: dict[str, Callable[[Request], Request]] = {
    "connect": on_connect,
    "warm": on_warm,
    "bare": on_bare,
    "throughput": on_throughput,
}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer = HANDLERS[request["do"]](request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
