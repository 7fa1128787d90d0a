"""`langchain-azure-dynamic-sessions`: the Python and the Bash tool."""

import io
import json
from pathlib import Path

import pytest
import requests
from langchain_azure_dynamic_sessions import SessionsBashTool, SessionsPythonREPLTool
from server import Server


@pytest.fixture
def python(server: Server) -> SessionsPythonREPLTool:
    return SessionsPythonREPLTool(pool_management_endpoint=server.url)


@pytest.fixture
def bash(server: Server) -> SessionsBashTool:
    return SessionsBashTool(pool_management_endpoint=server.url)


def test_what_code_says(python: SessionsPythonREPLTool) -> None:
    def invoke(code: str) -> dict[str, object]:
        return json.loads(python.invoke(code))

    assert invoke("6 * 7") == {"result": 42, "stdout": "", "stderr": ""}
    assert invoke("x = 'kept'; print('out')") == {"result": "", "stdout": "out\n", "stderr": ""}
    assert invoke("import sys; print('err', file=sys.stderr); x") == {"result": "kept", "stdout": "", "stderr": "err\n"}
    assert invoke("[1, 2]")["result"] == "[1, 2]"
    assert invoke("float('nan')")["result"] is None
    assert "ZeroDivisionError: division by zero" in invoke("1 / 0")["stderr"]
    call = {"args": {"python_code": "1 + 1"}, "id": "7", "name": python.name, "type": "tool_call"}
    message = python.invoke(call)
    assert json.loads(message.content)["result"] == 2 and message.artifact["status"] == "Success"


def test_values_of_libraries(python: SessionsPythonREPLTool) -> None:
    def value(code: str) -> object:
        return json.loads(python.invoke(code))["result"]

    assert value("import pandas as pd; pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})") == "   a  b\n0  1  x\n1  2  y"
    assert value("import numpy as np; np.int64(5)") == "np.int64(5)"
    image = {"type": "image", "format": "png"}
    assert value("import matplotlib.pyplot as plt; figure = plt.figure(); plt.plot([1, 2]); plt.show()") == image
    assert value("figure") == image


def test_a_figure_is_an_artifact_and_not_text(python: SessionsPythonREPLTool) -> None:
    code = "import matplotlib.pyplot as plt; plt.plot([1, 3, 2]); plt.savefig('/mnt/data/p.png')"
    message = python.invoke({"args": {"python_code": code}, "id": "7", "name": python.name, "type": "tool_call"})
    assert json.loads(message.content)["result"] == {"type": "image", "format": "png"}
    assert message.artifact["result"]["base64_data"].startswith("iVBOR")


def test_files(python: SessionsPythonREPLTool, work: Path) -> None:
    assert python.list_files() == []
    (work / "local.bin").write_bytes(bytes(range(256)))
    uploaded = python.upload_file(local_file_path=str(work / "local.bin"))
    assert (uploaded.filename, uploaded.size_in_bytes, uploaded.full_path) == ("local.bin", 256, "/mnt/data/local.bin")
    python.upload_file(data=io.BytesIO(b"text"), remote_file_path="a b+c.txt")
    assert {file.filename for file in python.list_files()} == {"local.bin", "a b+c.txt"}
    assert python.download_file(remote_file_path="local.bin").read() == bytes(range(256))
    assert python.download_file(remote_file_path="a b+c.txt").read() == b"text"
    assert json.loads(python.invoke("open('/mnt/data/a b+c.txt').read()"))["result"] == "text"
    with pytest.raises(requests.HTTPError, match="404"):
        python.download_file(remote_file_path="never.txt")


def test_a_session_that_was_deleted_is_a_new_one(server: Server) -> None:
    with SessionsPythonREPLTool(pool_management_endpoint=server.url) as python:
        first = python.session_id
        python.invoke("x = 1")
    assert python.session_id != first
    # The client deletes in a thread that nobody waits for. Whoever comes second is told that it is gone.
    with pytest.raises(requests.HTTPError, match="404"):
        while True:
            python._delete_session_sync(first)
    again = SessionsPythonREPLTool(pool_management_endpoint=server.url, session_id=first)
    assert "NameError" in json.loads(again.invoke("x"))["stderr"]


def test_bash(bash: SessionsBashTool, work: Path) -> None:
    def invoke(command: str) -> dict[str, object]:
        return json.loads(bash.invoke(command))

    assert invoke("echo out; echo err >&2; exit 3") == {"stdout": "out\n", "stderr": "err\n", "exitCode": 3}
    assert invoke("```bash\nset -e\nfor i in 1 2; do echo $i; done\n```")["stdout"] == "1\n2\n"
    (work / "words.txt").write_text("b\na\n")
    uploaded = bash.upload_file(local_file_path=str(work / "words.txt"))
    assert (uploaded.filename, uploaded.size_in_bytes) == ("words.txt", 4)
    assert invoke("sort /mnt/data/words.txt > sorted.txt")["exitCode"] == 0
    assert {file.filename for file in bash.list_files()} == {"words.txt", "sorted.txt"}
    assert bash.download_file(remote_file_path="sorted.txt").read() == b"a\nb\n"


def test_bash_and_python_share_a_session(server: Server, python: SessionsPythonREPLTool) -> None:
    bash = SessionsBashTool(pool_management_endpoint=server.url, session_id=python.session_id)
    python.invoke("open('shared.txt', 'w').write('from Python')")
    assert json.loads(bash.invoke("cat shared.txt"))["stdout"] == "from Python"
