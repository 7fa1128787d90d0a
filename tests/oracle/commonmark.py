"""The examples of the CommonMark specification that have code in them: the oracle for fences.

    npm pack commonmark-spec@0.31.2 && tar xzf commonmark-spec-0.31.2.tgz
    python commonmark.py package/spec.txt > commonmark.json

The specification is (C) John MacFarlane, under CC BY-SA 4.0, and so is the file that this writes.
"""

import json
import re
import sys
from pathlib import Path

EXAMPLE = re.compile(r"^`{32} example\n(.*?)^\.\n(.*?)^`{32}$", re.MULTILINE | re.DOTALL)


def main():
    spec = Path(sys.argv[1]).read_text(encoding="utf-8").replace("→", "\t")
    examples = []
    for number, match in enumerate(EXAMPLE.finditer(spec), 1):
        markdown, html = match.groups()
        if "<pre><code" in html or "```" in markdown or "~~~" in markdown:
            examples.append({"example": number, "markdown": markdown, "html": html})
    notice = "From https://spec.commonmark.org/0.31.2, (C) John MacFarlane, CC BY-SA 4.0"
    json.dump({"notice": notice, "examples": examples}, sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
