"""`llama-index-tools-azure-code-interpreter`: the story of the post that introduced it, from its first question to its plot."""

from pathlib import Path

import pytest
from llama_index.tools.azure_code_interpreter import AzureCodeInterpreterToolSpec
from server import Server

TEMPERATURES = "city,celsius\nBergen,9.5\nSeville,38.25\nOulu,-3\nPune,31\n"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def interpreter(server: Server, work: Path) -> AzureCodeInterpreterToolSpec:
    return AzureCodeInterpreterToolSpec(pool_management_endpoint=server.url, local_save_path=str(work))


def test_the_whole_story(interpreter: AzureCodeInterpreterToolSpec, work: Path) -> None:
    def run(code: str) -> dict[str, object]:
        return interpreter.code_interpreter(code)["properties"]

    # The time in a city. An agent writes its code in a fence.
    time = run(
        "```python\nfrom datetime import datetime\nfrom zoneinfo import ZoneInfo\n"
        "now = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo('UTC'))\n"
        "now.astimezone(ZoneInfo('America/Los_Angeles')).strftime('%H:%M')\n```"
    )
    assert (time["status"], time["result"], time["stdout"], time["stderr"]) == ("Success", "05:00", "", "")

    # A file of the user's.
    (work / "temperatures.csv").write_text(TEMPERATURES)
    [uploaded] = interpreter.upload_file(local_file_path=str(work / "temperatures.csv"))
    assert (uploaded.filename, uploaded.size_in_bytes) == ("temperatures.csv", len(TEMPERATURES))
    assert uploaded.file_full_path == "/mnt/data/temperatures.csv"
    assert [(file.filename, file.size_in_bytes) for file in interpreter.list_files()] == [
        ("temperatures.csv", len(TEMPERATURES))
    ]

    # The highest value: at first the agent's code is none, and it corrects what the answer tells.
    failed = run("import pandas as pd\ndf = pd.read_csv('/mnt/data/temperatures.csv'\ndf.celsius.max()")
    assert (failed["status"], failed["result"]) == ("Failure", None)
    assert "SyntaxError: '(' was never closed" in failed["stderr"] and "\x1b" not in failed["stderr"]
    highest = run("import pandas as pd\ndf = pd.read_csv('/mnt/data/temperatures.csv')\nfloat(df.celsius.max())")
    assert (highest["status"], highest["result"]) == ("Success", 38.25)
    assert isinstance(highest["executionTimeInMilliseconds"], int)

    # Sorted, saved beside it, and fetched. The variable is still there.
    saved = run("df.sort_values('celsius').to_csv('/mnt/data/sorted.csv', index=False)")
    assert (saved["status"], saved["result"]) == ("Success", "")
    assert {file.filename for file in interpreter.list_files()} == {"temperatures.csv", "sorted.csv"}
    interpreter.download_file_to_local("/mnt/data/sorted.csv", local_file_path=str(work / "sorted.csv"))
    assert (work / "sorted.csv").read_text().splitlines() == [
        "city,celsius",
        "Oulu,-3.0",
        "Bergen,9.5",
        "Pune,31.0",
        "Seville,38.25",
    ]
    assert interpreter.download_file_to_local("temperatures.csv").read() == TEMPERATURES.encode()

    # A plot comes back as an image, which the client saves.
    plot = run("import matplotlib.pyplot as plt\ndf.plot.bar(x='city', y='celsius')\nplt.show()")
    assert plot["result"] == {"type": "image", "format": "png", "saved_to_local_path": True}
    [figure] = work.glob("*.png")
    assert figure.read_bytes().startswith(PNG)


def test_a_tool_of_an_agent(interpreter: AzureCodeInterpreterToolSpec) -> None:
    tools = {tool.metadata.name: tool for tool in interpreter.to_tool_list()}
    output = tools["code_interpreter"].call(python_code="print('seen'); 6 * 7")
    assert output.raw_output["properties"]["result"] == 42
    assert output.raw_output["properties"]["stdout"] == "seen\n"
    assert tools["list_files"].call().raw_output == []


def test_a_name_that_is_not_ascii(interpreter: AzureCodeInterpreterToolSpec, work: Path) -> None:
    (work / "Größe & 100%.txt").write_text("ü")
    [uploaded] = interpreter.upload_file(local_file_path=str(work / "Größe & 100%.txt"))
    assert uploaded.filename == "Größe & 100%.txt"
    result = interpreter.code_interpreter("open('/mnt/data/Größe & 100%.txt').read()")
    assert result["properties"]["result"] == "ü"
