"""Semantic Kernel's `SessionsPythonTool`, which insists on https."""

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest
from azure.identity import DefaultAzureCredential
from semantic_kernel import Kernel
from semantic_kernel.core_plugins import SessionsPythonTool
from semantic_kernel.core_plugins.sessions_python_tool.sessions_python_settings import SessionsPythonSettings
from semantic_kernel.exceptions.function_exceptions import FunctionExecutionException
from server import Server


@pytest.fixture
def tool(server: Server, work: Path, monkeypatch: pytest.MonkeyPatch) -> SessionsPythonTool:
    """As it is, with our authority trusted by the environment."""
    monkeypatch.setenv("SSL_CERT_FILE", server.said["authority"])
    return SessionsPythonTool(
        pool_management_endpoint=server.tls_url,
        credential=DefaultAzureCredential(),
        enable_dangerous_file_uploads=True,
        allowed_upload_directories=[str(work)],
    )


def test_what_code_says(tool: SessionsPythonTool) -> None:
    async def story() -> None:
        assert await tool.execute_code("6 * 7") == "Status:\nSuccess\nResult:\n42\nStdout:\n\nStderr:\n"
        assert (
            await tool.execute_code("x = 'kept'; print(x)") == "Status:\nSuccess\nResult:\n\nStdout:\nkept\n\nStderr:\n"
        )
        failed = await tool.execute_code("x + 1")
        assert (
            failed.startswith("Status:\nFailure\nResult:\nNone\n") and "TypeError: can only concatenate str" in failed
        )

    asyncio.run(story())


def test_through_a_kernel(tool: SessionsPythonTool) -> None:
    async def story() -> None:
        kernel = Kernel()
        plugin = kernel.add_plugin(tool, "python")
        result = await kernel.invoke(plugin["execute_code"], code="sum(range(10))")
        assert "Result:\n45\n" in str(result)

    asyncio.run(story())


def test_files_although_the_client_calls_an_upload_json(tool: SessionsPythonTool, work: Path) -> None:
    async def story() -> None:
        (work / "numbers.csv").write_text("1\n2\n")
        # From here on it sends `Content-Type: application/json` with everything.
        await tool.execute_code("1")
        uploaded = await tool.upload_file(local_file_path=str(work / "numbers.csv"))
        assert (uploaded.full_path, uploaded.size_in_bytes) == ("/mnt/data/numbers.csv", 4)
        nested = await tool.upload_file(local_file_path=str(work / "numbers.csv"), remote_file_path="deep/er.csv")
        assert nested.full_path == "/mnt/data/deep/er.csv"
        assert {file.full_path for file in await tool.list_files()} >= {
            "/mnt/data/numbers.csv",
            "/mnt/data/deep/er.csv",
        }
        assert (await tool.download_file(remote_file_name="deep/er.csv")).read() == b"1\n2\n"
        await tool.download_file(remote_file_name="numbers.csv", local_file_path=str(work / "back.csv"))
        assert (work / "back.csv").read_text() == "1\n2\n"
        assert "Result:\n4\n" in await tool.execute_code("len(open('/mnt/data/deep/er.csv').read())")

    asyncio.run(story())


def test_an_http_client_of_ones_own(server: Server) -> None:
    context = ssl.create_default_context(cafile=server.said["authority"])
    client = httpx.AsyncClient(verify=context, timeout=240)
    tool = SessionsPythonTool(
        pool_management_endpoint=server.tls_url, auth_callback=lambda: server.said["token"], http_client=client
    )
    # The client's own would have given up after 5 seconds.
    assert "Result:\nlate\n" in asyncio.run(tool.execute_code("import time; time.sleep(6); 'late'"))


def test_an_error_says_why(server: Server, tool: SessionsPythonTool) -> None:
    tool.settings = SessionsPythonSettings(identifier="a#b")
    # It does not encode the identifier: what comes after it is no query any more.
    with pytest.raises(FunctionExecutionException, match="SessionRequestValidationFailed"):
        asyncio.run(tool.execute_code("1"))
    stranger = SessionsPythonTool(pool_management_endpoint=server.tls_url, auth_callback=lambda: "no token of ours")
    with pytest.raises(FunctionExecutionException, match="401"):
        asyncio.run(stranger.execute_code("1"))
