"""`azure-dynamic-sessions-code-interpreter`, a client of a third party."""

import io

import pytest
import requests
from azure_dynamic_sessions_code_interpreter import CodeInterpreterTool
from server import Server


def test_code_and_files(server: Server) -> None:
    tool = CodeInterpreterTool(pool_management_endpoint=server.url)
    answer = tool.execute("print('out'); 6 * 7")
    assert (answer["status"], answer["result"], answer["stdout"]) == ("Success", 42, "out\n")
    uploaded = tool.upload_file(data=io.BytesIO(b"hello"), remote_file_path="hello.txt")
    assert (uploaded.filename, uploaded.size_in_bytes) == ("hello.txt", 5)
    assert [file.filename for file in tool.list_files()] == ["hello.txt"]
    assert tool.download_file(remote_file_path="hello.txt").read() == b"hello"
    with pytest.raises(requests.HTTPError, match="404"):
        tool.download_file(remote_file_path="never.txt")
