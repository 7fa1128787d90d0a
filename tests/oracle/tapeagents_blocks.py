"""What TapeAgents extracts from the messages of tests/blocks/messages.txt: what we are compared with.

pip download --no-deps tapeagents==0.1.16 && unzip tapeagents-*.whl && pip install pydantic
python tapeagents_blocks.py tapeagents/tools/container_executor.py ../blocks/messages.txt > tapeagents_blocks.json
"""

import importlib.util
import json
import sys
from pathlib import Path


def messages(text):
    """The messages by their names."""
    for entry in text.removeprefix("@@ ").split("\n@@ "):
        name, _, rest = entry.partition("\n")
        lines = rest.split("\n")
        end = next((at for at, line in enumerate(lines) if line.startswith(("@>", "@!"))), None)
        message = "\n".join(lines[:end]) if end is not None else rest.removesuffix("\n")
        windows = name.endswith(" [crlf]")
        yield name.removesuffix(" [crlf]"), message.replace("\n", "\r\n") if windows else message


def main():
    spec = importlib.util.spec_from_file_location("container_executor", sys.argv[1])
    tapeagents = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tapeagents)
    found = {
        name: [[block.language, block.code] for block in tapeagents.extract_code_blocks(message)]
        for name, message in messages(Path(sys.argv[2]).read_text(encoding="utf-8"))
    }
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
