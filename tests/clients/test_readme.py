"""The README's snippets, taken from there and run as they stand, but for the ports."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server import ROOT, Server

SECTION = re.search(r"^## Serve$(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
SNIPPETS = {
    re.search(r"^from (llama_index|langchain|autogen_ext|semantic_kernel)", code, re.MULTILINE)[1]: code
    for code in re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
}
SAYS = {
    "llama_index": "42\n",
    "langchain": '{\n  "stdout": "from Python",\n  "stderr": "",\n  "exitCode": 0\n}\n',
    "autogen_ext": "42\n\n",
    "semantic_kernel": "Status:\nSuccess\nResult:\n42\nStdout:\n\nStderr:\n\n",
}


def test_each_client_has_its_snippet() -> None:
    assert SNIPPETS.keys() == SAYS.keys()


@pytest.mark.parametrize("client", SAYS)
def test_a_snippet(server: Server, work: Path, client: str) -> None:
    code = SNIPPETS[client]
    for written, here in {"http://127.0.0.1:8080": server.url, "https://127.0.0.1:8443": server.tls_url}.items():
        code = code.replace(written, here)
    environment = {**os.environ, "SSL_CERT_FILE": server.said["authority"]}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=work, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, SAYS[client]), done.stderr


def test_the_calls_by_hand(server: Server) -> None:
    environment = {**os.environ, "TOKEN": server.said["token"]}
    for command in re.findall(r"^\$ (curl .*)$", SECTION, re.MULTILINE):
        command = command.replace("http://127.0.0.1:8080", server.url)
        done = subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["data"]["text/plain"] == "42"
