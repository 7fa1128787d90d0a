"""What TapeAgents' ContainerExecutor makes of lists of code blocks: what we are compared with.

pip download --no-deps tapeagents==0.1.16 && unzip tapeagents-*.whl && pip install pydantic
python tapeagents_runs.py tapeagents/tools/container_executor.py > tapeagents_runs.json

Its container is this machine: `podman` is replaced by what runs the commands that it would exec. `ours` is what we do otherwise, and `why`.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types

CASES = [
    {"name": "aliases", "blocks": [["py", "print(1)"], ["Python", "import sys; print(2, file=sys.stderr)"]]},
    {"name": "shells", "blocks": [["bash", "echo ${BASH_VERSION:+bash}"], ["sh", "echo sh"], ["Shell", "echo shell"]]},
    {"name": "streams are joined", "blocks": [["bash", "echo out; echo err >&2"], ["sh", "echo next"]]},
    {"name": "escapes are taken out", "blocks": [["bash", "printf '\\033[31mred\\033[0m\\n'"]]},
    {"name": "the first failure is the last", "blocks": [["bash", "echo one; exit 3"], ["bash", "echo two"]]},
    {"name": "a code by sys.exit", "blocks": [["python", "import sys\nprint('x')\nsys.exit(4)"], ["sh", "echo two"]]},
    {
        "name": "an unknown language",
        "blocks": [["sh", "echo one"], ["COBOL", "x"], ["sh", "echo two"]],
        "ours": {"output": "one\nUnsupported language cobol"},
        "why": "it ends as the refusal of a name does, with no end of line",
    },
    {"name": "saved only", "blocks": [["javascript", "x"], ["js", "y"], ["html", "<p>"], ["css", "a {}"]]},
    {"name": "named by a hash", "blocks": [["python", "# filename: a.py\nprint('a')"], ["sh", "python a.py"]]},
    {"name": "named by slashes", "blocks": [["js", "// filename: a.js\nx"]]},
    {"name": "named by stars", "blocks": [["css", "/* filename: a.css */\na {}"]]},
    {"name": "named by html", "blocks": [["html", "<!-- filename: my page.html -->\n<p>"]]},
    {"name": "named above the work directory", "blocks": [["sh", "echo one"], ["sh", "# filename: ../x.sh\necho two"]]},
    {"name": "named elsewhere", "blocks": [["python", "# filename: /etc/x.py\nprint(1)"], ["sh", "echo two"]]},
    {"name": "pip in a shell", "blocks": [["bash", "exit 0\npip install a\n  pip install b\npip install -qqq c"]]},
    {"name": "pip in python", "blocks": [["python", "'''\n! pip install a\n!pip install b\npip install c\n'''"]]},
    {"name": "pip elsewhere", "blocks": [["html", "pip install a"]]},
    {"name": "a file in quotes", "blocks": [["sh", "echo x > plot.png; echo \"saved as 'plot.png'\""]]},
    {"name": "no code", "blocks": [["sh", ""]]},
    {
        "name": "time is up",
        "blocks": [["sh", "echo begun; sleep 60"], ["sh", "echo two"]],
        "timeout": 3,
        "ours": {"output": "begun\nTimeout"},
        "why": "it is a line, with no empty one before it",
    },
    {
        "name": "124 by itself",
        "blocks": [["sh", "echo done; exit 124"]],
        "ours": {"output": "done\n"},
        "why": "that is no timeout",
    },
    {
        "name": "words that are no files",
        "blocks": [["sh", "echo a jpg, a jpeg and missing.png"]],
        "ours": {"output_files": []},
        "why": "they are none of the work directory",
    },
    {
        "name": "a file that is not named",
        "blocks": [["sh", "echo x > made.csv"]],
        "ours": {"output_files": ["made.csv"]},
        "why": "it was made",
    },
    {
        "name": "a comment that names nothing",
        "blocks": [["sh", "# Load the data\necho x"]],
        "ours": {"code_files": ["tmp_code_2ac3cd0b58b06b5cf146863d02c7622a.sh"]},
        "why": "a name follows the word `filename`",
    },
    {
        "name": "named in a directory that is not there",
        "blocks": [["sh", "# filename: made/here.sh\necho x"]],
        "ours": {"exit_code": 0, "output": "x\n", "output_files": [], "code_files": ["made/here.sh"]},
        "why": "it is made",
    },
    {
        "name": "output with no end of line",
        "blocks": [["sh", "printf one"], ["sh", "echo two"]],
        "ours": {"output": "one\ntwo\n"},
        "why": "each block begins a line",
    },
]


def podman():
    """What TapeAgents uses of it."""

    def exec_run(command, tty):
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return ran.returncode, ran.stdout

    container = types.SimpleNamespace(status="running", exec_run=exec_run)
    client = types.SimpleNamespace(containers=types.SimpleNamespace(get=lambda name: container))
    return types.SimpleNamespace(from_env=lambda: client, errors=types.SimpleNamespace(APIError=OSError))


def theirs(tapeagents, case):
    blocks = [tapeagents.CodeBlock(language=language, code=code) for language, code in case["blocks"]]
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            result = tapeagents.execute_code_in_container(
                blocks, directory, container_work_dir=directory, timeout=case.get("timeout", 60)
            )
        except OSError as error:
            return {"raises": type(error).__name__}
        return json.loads(json.dumps(result.model_dump()).replace(directory + "/", ""))


def main():
    sys.modules["podman"] = podman()
    spec = importlib.util.spec_from_file_location("container_executor", sys.argv[1])
    tapeagents = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tapeagents)
    json.dump(
        [{**case, "theirs": theirs(tapeagents, case)} for case in CASES], sys.stdout, indent=1, ensure_ascii=False
    )
    print()


main()
