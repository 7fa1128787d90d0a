"""`autogen-ext`: what its own acceptance tests ask of `ACADynamicSessionsCodeExecutor`."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeResult, FunctionWithRequirements, with_requirements
from autogen_ext.code_executors.azure import ACADynamicSessionsCodeExecutor
from azure.identity import DefaultAzureCredential
from server import Server

Make = Callable[..., ACADynamicSessionsCodeExecutor]


@pytest.fixture
def make(server: Server, work: Path) -> Make:
    def make(**options: object) -> ACADynamicSessionsCodeExecutor:
        return ACADynamicSessionsCodeExecutor(server.url, DefaultAzureCredential(), work_dir=work, **options)

    return make


def run(executor: ACADynamicSessionsCodeExecutor, *codes: str, language: str = "python") -> CodeResult:
    blocks = [CodeBlock(code=code, language=language) for code in codes]
    return asyncio.run(executor.execute_code_blocks(blocks, CancellationToken()))


def test_code_blocks(make: Make) -> None:
    executor = make()
    result = run(executor, "import sys; print('hello')", "a = 100 + 100; print(a)", "a + 1")
    assert (result.exit_code, result.output) == (0, "hello\n200\n201")
    result = run(executor, "echo hello", language="bash")
    assert result.exit_code == 1 and "unknown language" in result.output
    result = run(executor, "print('before'); object() + 1")
    assert result.exit_code == 1
    assert "TypeError: unsupported operand type(s) for +:" in result.output and "before\n" in result.output
    result = run(executor, "import no_such_package_of_ours")
    assert result.exit_code == 1 and "no_such_package_of_ours" in result.output


def test_available_packages_are_listed_one_by_one(make: Make) -> None:
    packages = asyncio.run(_packages(make()))
    assert len(packages) > 30 and {"pandas", "matplotlib", "polars"} <= packages


async def _packages(executor: ACADynamicSessionsCodeExecutor) -> set[str]:
    executor._ensure_access_token()
    return await executor.get_available_packages(CancellationToken())


def test_a_figure_without_show_is_the_result(make: Make) -> None:
    result = run(make(), "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('plot.png')")
    assert result.exit_code == 0 and "'type': 'image'" in result.output and "base64_data" in result.output


def test_files(make: Make, work: Path) -> None:
    async def story() -> None:
        executor, token = make(), CancellationToken()
        (work / "test 1.txt").write_text("first")
        (work / "Müller%.txt").write_text("second")
        await executor.upload_files(["test 1.txt", "Müller%.txt"], token)
        assert set(await executor.get_file_list(token)) == {"test 1.txt", "Müller%.txt"}
        code = "print(open('test 1.txt').read(), open('Müller%.txt').read())\nopen('answer', 'w').write('third')"
        result = await executor.execute_code_blocks([CodeBlock(code=code, language="python")], token)
        assert (result.exit_code, result.output) == (0, "first second\n5")
        [path] = await executor.download_files(["answer"], token)
        assert Path(path) == work / "answer" and Path(path).read_text() == "third"
        with pytest.raises(FileNotFoundError):
            await executor.download_files(["never"], token)

    asyncio.run(story())


def test_a_restart_is_a_new_session(make: Make) -> None:
    async def story() -> None:
        executor, token = make(), CancellationToken()
        await executor.execute_code_blocks([CodeBlock(code="x = 1", language="python")], token)
        await executor.restart()
        result = await executor.execute_code_blocks([CodeBlock(code="x", language="python")], token)
        assert result.exit_code == 1 and "NameError" in result.output

    asyncio.run(story())


def test_a_timeout_ends_the_cell_and_not_the_session(make: Make) -> None:
    executor = make()
    run(executor, "import time; x = 'kept'")
    executor._timeout = 1
    with pytest.raises(asyncio.TimeoutError):
        run(executor, "time.sleep(120); x = 'lost'")
    executor._timeout = 60
    # It would wait for the sleeping cell, had that not been interrupted.
    assert run(executor, "x").output == "kept"


def test_a_cancellation_ends_the_cell_and_not_the_session(make: Make, server: Server) -> None:
    async def story() -> None:
        executor = make()
        await executor.execute_code_blocks(
            [CodeBlock(code="import pathlib, time", language="python")], CancellationToken()
        )
        token = CancellationToken()
        code = "pathlib.Path('begun').touch(); time.sleep(120)"
        running = asyncio.ensure_future(executor.execute_code_blocks([CodeBlock(code=code, language="python")], token))
        while "begun" not in await executor.get_file_list(CancellationToken()):
            await asyncio.sleep(0.05)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        result = await executor.execute_code_blocks([CodeBlock(code="6 * 7", language="python")], CancellationToken())
        assert result.output == "42"

    asyncio.run(story())


def add_two_numbers(a: int, b: int) -> int:
    """Add two numbers together."""
    return a + b


@with_requirements(python_packages=["polars"], global_imports=["polars"])
def load_data() -> "polars.DataFrame":  # noqa: F821
    """Load some sample data."""
    return polars.DataFrame({"name": ["John", "Anna"], "age": [24, 13]})  # noqa: F821


@with_requirements(global_imports=["NOT_A_REAL_PACKAGE"])
def function_incorrect_import() -> None:
    """Its import is not there."""


@with_requirements(python_packages=["NOT_A_REAL_PACKAGE"])
def function_incorrect_dep() -> None:
    """Its package is not there."""


def test_functions_of_the_user(make: Make) -> None:
    result = run(make(functions=[load_data]), "import polars\ndata = load_data()\nprint(data['name'][0])")
    assert (result.exit_code, result.output) == (0, "John\n")
    assert run(make(functions=[add_two_numbers]), "print(add_two_numbers(1, 2))").output == "3\n"
    text = FunctionWithRequirements.from_str(
        '\ndef add_two_numbers(a: int, b: int) -> int:\n    """Add two numbers together."""\n    return a + b\n'
    )
    executor = make(functions=[text])
    assert run(executor, "print(add_two_numbers(1, 2))").output == "3\n"
    result = run(executor, "print(add_two_numbers(object(), False))")
    assert result.exit_code == 1 and "TypeError: unsupported operand type(s) for +:" in result.output


@pytest.mark.parametrize("function", [function_incorrect_import, function_incorrect_dep])
def test_functions_that_cannot_be_loaded(make: Make, function: object) -> None:
    with pytest.raises(ValueError, match="NOT_A_REAL_PACKAGE"):
        run(make(functions=[function]), "1")
