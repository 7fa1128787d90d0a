"""A real server with real containers, for published clients."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that asks for a token, and gives one to Azure's `DefaultAzureCredential`."""
    options = ["--msi", "--warm=3", "--idle-timeout=60s", "--tls-self-signed", "--tls-listen=127.0.0.1:0"]
    with Server(tmp_path_factory.mktemp("server"), options) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.identity().items():
            patch.setenv(name, value)
        # Nothing of another Azure login on this machine is to help.
        for name in os.environ:
            if name.startswith("AZURE_"):
                patch.delenv(name)
        yield server


@pytest.fixture(autouse=True)
def warm(server: Server) -> None:
    server.wait_until_warm()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The client's own directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
