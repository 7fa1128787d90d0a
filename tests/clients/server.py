"""`cellblock serve` as a process."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import requests

ROOT = Path(__file__).parents[2]
BINARY = os.environ.get("CELLBLOCK_TEST_BINARY", str(ROOT / "target/debug/cellblock"))
IMAGE = os.environ.get("CELLBLOCK_TEST_DATA_IMAGE", "cellblock:data")


class Server:
    """Runs one on ports of its own; at its end it has to leave by itself, and in order."""

    def __init__(self, state: Path, options: list[str]) -> None:
        self.log = (state / "log").open("w+")
        command = [BINARY, "serve", "--listen=127.0.0.1:0", f"--state-dir={state}", f"--image={IMAGE}", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.said: dict[str, str] = {}
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "ready\n":
                break
            self._read(line.strip())
        else:
            raise AssertionError(f"the server ended: {self.logged()}")

    def _read(self, line: str) -> None:
        match line.split():
            case ["listening", "on", url]:
                self.said[url.split(":")[0]] = url
            case ["token", token]:
                self.said["token"] = token
            case ["certificate", "authority", path]:
                self.said["authority"] = path
            case _ if "=" in line:
                name, value = line.split("=", 1)
                self.said[name] = value

    @property
    def url(self) -> str:
        return self.said["http"]

    @property
    def tls_url(self) -> str:
        return self.said["https"]

    def identity(self) -> dict[str, str]:
        return {name: self.said[name] for name in ("IDENTITY_ENDPOINT", "IDENTITY_HEADER")}

    def execute(self, identifier: str, code: str, **more: object) -> dict[str, object]:
        """By hand, where no client is what is tested."""
        return self._post(identifier, {"code": code, **more})

    def shell(self, identifier: str, command: str) -> dict[str, object]:
        return self._post(identifier, {"shellCommand": command})

    def _post(self, identifier: str, body: dict[str, object]) -> dict[str, object]:
        query = {"identifier": identifier, "api-version": "2025-10-02-preview"}
        answer = requests.post(f"{self.url}/executions", params=query, headers=self._headers(), json=body, timeout=120)
        answer.raise_for_status()
        return answer.json()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.said['token']}"}

    def wait_until_warm(self) -> None:
        """A client's own patience is short: it is not to meet a session that has yet to start."""
        until = time.monotonic() + 120
        while True:
            metrics = requests.get(f"{self.url}/metrics", headers=self._headers(), timeout=60).text
            if int(re.search(r"^cellblock_warm_sessions (\d+)", metrics, re.MULTILINE)[1]) > 0:
                return
            assert time.monotonic() < until, f"no session became warm: {self.logged()}"
            time.sleep(0.05)

    def logged(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert code == 0, self.logged()
        assert "panicked" not in self.logged()
        self.log.close()
