"""A bridge as a plain process, and the host's end of its two links."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

BRIDGE = Path(__file__).parents[2] / "kernel-image" / "bridge"
CHANNELS = ("shell", "stdin", "control", "iopub", "hb")
PATIENCE = 20.0
HEADER = struct.Struct(">BBI")

Message = dict[str, Any]


def wait_until(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Polls a condition that nothing announces."""
    end = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {patience} s for {what}")
        time.sleep(0.005)
    return value


def state_of(pid: int) -> str:
    """The letter that the system has for what a process does: R, S, T for a stopped one, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return state_of(pid) not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Control:
    """The host's end of a control connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(PATIENCE)
        self._buffer = b""
        self._last_id = 0
        self.events: deque[Message] = deque()

    def send(self, message: Message, descriptors: list[int] | None = None) -> None:
        payload = json.dumps(message).encode()
        frame = HEADER.pack(0, 0, len(payload)) + payload
        if descriptors:
            socket.send_fds(self.sock, [frame], descriptors)
        else:
            self.sock.sendall(frame)

    def receive(self) -> Message | None:
        """The next message, or `None` at the end of the stream."""
        while len(self._buffer) < 6 or len(self._buffer) < 6 + HEADER.unpack_from(self._buffer)[2]:
            chunk = self.sock.recv(65536)
            if not chunk:
                return None
            self._buffer += chunk
        stream, kind, length = HEADER.unpack_from(self._buffer)
        assert (stream, kind) == (0, 0)
        payload, self._buffer = self._buffer[6 : 6 + length], self._buffer[6 + length :]
        return dict(json.loads(payload))

    def request(self, kind: str, descriptors: list[int] | None = None, **fields: Any) -> Message:
        self._last_id += 1
        self.send({"type": kind, "id": self._last_id, **fields}, descriptors)
        return self.reply(self._last_id)

    def reply(self, request_id: int) -> Message:
        while True:
            message = self.receive()
            assert message is not None, "the bridge closed the connection"
            if message["type"] == "reply":
                assert message["id"] == request_id
                return message
            self.events.append(message)

    def event(self, kind: str) -> Message:
        """The next event, which must be of this kind."""
        message = self.events.popleft() if self.events else self.receive()
        assert message is not None, "the bridge closed the connection"
        assert message["type"] == kind, message
        return message

    def hello(self) -> Message:
        return self.request("hello", v=1)

    def close(self) -> None:
        self.sock.close()


class Bridge:
    """`bridge init` as a plain process with a directory of its own."""

    def __init__(self, *options: str, host_socket: bool = False) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="cb", dir="/tmp")
        self.runtime_dir = Path(self.directory.name, "run")
        self.host_dir = Path(self.directory.name, "in")
        self.host_dir.mkdir()
        self.listener = socket.socket(socket.AF_UNIX)
        if host_socket:
            self.listener.bind(str(self.host_dir / "bridge.sock"))
            self.listener.listen()
            self.listener.settimeout(PATIENCE)
        environment = {**os.environ, "IPYTHONDIR": f"{self.directory.name}/ipython", "CELLBLOCK_SECRET": "x"}
        # With it in its environment ipykernel does not capture what child processes write.
        environment.pop("PYTEST_CURRENT_TEST", None)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                BRIDGE,
                "init",
                "--runtime-dir",
                self.runtime_dir,
                "--host-dir",
                self.host_dir,
                *options,
            ],
            env=environment,
        )
        self.clients: list[BlockingKernelClient] = []
        self.controls: list[Control] = []

    def connect(self) -> Control:
        """A connection as a relay makes it."""
        path = self.runtime_dir / "bridge.sock"
        sock = socket.socket(socket.AF_UNIX)
        wait_until("bridge.sock", lambda: path.exists() or self.process.poll() is not None)
        wait_until("a connection", lambda: sock.connect_ex(str(path)) == 0)
        return self._control(sock)

    def accept(self) -> Control:
        """The connection that the bridge dialled."""
        return self._control(self.listener.accept()[0])

    def _control(self, sock: socket.socket) -> Control:
        self.controls.append(Control(sock))
        return self.controls[-1]

    def controller(self) -> Control:
        control = self.connect()
        assert control.hello()["ok"]
        return control

    def client(self, started: Message, prefix: str | None = None) -> BlockingKernelClient:
        """A Jupyter client of the kernel, ready."""
        client = BlockingKernelClient()
        client.load_connection_info(
            {
                "transport": "ipc",
                "ip": prefix or str(self.runtime_dir / f"k{started['generation']}"),
                "key": started["key"],
                "signature_scheme": "hmac-sha256",
                **{f"{channel}_port": number for number, channel in enumerate(CHANNELS, start=1)},
            }
        )
        client.start_channels(hb=False)
        client.wait_for_ready(timeout=PATIENCE)
        self.clients.append(client)
        return client

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        for client in self.clients:
            client.stop_channels()
        for control in self.controls:
            control.close()
        self.listener.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        self.directory.cleanup()


class Cell:
    """What one execution sent on IOPub, and its reply."""

    def __init__(self, client: BlockingKernelClient, code: str) -> None:
        self.client = client
        self.msg_id = client.execute(code)
        self.messages: list[Message] = []
        self.reply: Message = {}

    def finish(self, patience: float = PATIENCE) -> Cell:
        while not self.messages or not self._is_idle(self.messages[-1]):
            message = self.client.get_iopub_msg(timeout=patience)
            if message["parent_header"].get("msg_id") == self.msg_id:
                self.messages.append(message)
        while True:
            reply = self.client.get_shell_msg(timeout=patience)
            if reply["parent_header"].get("msg_id") == self.msg_id:
                self.reply = reply["content"]
                return self

    @staticmethod
    def _is_idle(message: Message) -> bool:
        return message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"

    def of(self, kind: str) -> list[Message]:
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    def text(self, name: str = "stdout") -> str:
        return "".join(content["text"] for content in self.of("stream") if content["name"] == name)

    def result(self) -> str:
        (content,) = self.of("execute_result")
        return str(content["data"]["text/plain"])


def run(client: BlockingKernelClient, code: str, patience: float = PATIENCE) -> Cell:
    return Cell(client, code).finish(patience)


def listeners(directory: str) -> list[int]:
    """Five listening sockets, as the host makes them."""
    made = []
    for number in range(1, 6):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(f"{directory}/h-{number}")
        sock.listen()
        made.append(sock.detach())
    return made
