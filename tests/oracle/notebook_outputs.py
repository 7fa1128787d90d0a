"""What nbclient and nbformat make of a kernel's messages: the oracle for the outputs of an execution.

Without an argument: writes sequences of messages, each with the outputs that nbclient gives a notebook's cell.
With `validate`: reads a list of outputs from stdin and has nbformat check them as those of a notebook's cell.
"""

import json
import logging
import random
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

TEXTS = ["one\n", "two", "é€😀", "\r50%\r100%\n", "\x1b[31mred\x1b[0m", " "]
DATA = [
    {"text/plain": "42"},
    {"text/plain": "<Figure>", "image/png": "iVBORw0KGgo="},
    {"text/html": "<b>x</b>", "application/json": {"a": [1, 2.5, None, "x"]}},
    {"application/vnd.plotly.v1+json": [1, {"b": True}], "text/plain": "plot"},
    {},
]


def messages(rng):
    """A sequence in which ids are unique, as nbclient and JupyterLab differ where a display repeats one."""
    shown = 0
    for _ in range(rng.randrange(1, 16)):
        data = rng.choice(DATA)
        metadata = rng.choice([{}, {}, {"image/png": {"width": 3}}, {"isolated": True}])
        kind = rng.choices(
            ["stream", "display", "result", "update", "clear", "error", "input"], [8, 3, 1, 3, 1, 0.5, 0.5]
        )[0]
        if kind == "stream":
            yield "stream", {"name": rng.choice(["stdout", "stdout", "stderr"]), "text": rng.choice(TEXTS)}
        elif kind == "display":
            shown += 1
            transient = {"display_id": f"id-{shown}"} if rng.random() < 0.7 else {}
            yield "display_data", {"data": data, "metadata": metadata, "transient": transient}
        elif kind == "result":
            yield "execute_result", {"data": data, "metadata": metadata, "execution_count": 3}
        elif kind == "update":
            transient = {"display_id": f"id-{rng.randrange(shown + 2)}"}
            yield "update_display_data", {"data": data, "metadata": metadata, "transient": transient}
        elif kind == "clear":
            yield "clear_output", {"wait": rng.random() < 0.5}
        elif kind == "error":
            yield "error", {"ename": "ValueError", "evalue": "bad", "traceback": ["\x1b[31mValueError\x1b[0m: bad"]}
        else:
            yield "execute_input", {"code": "...", "execution_count": 3}


def outputs(sequence):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("...")])
    client = NotebookClient(notebook, record_timing=False)
    client.clear_before_next_output = False
    cell = notebook.cells[0]
    for msg_type, content in json.loads(json.dumps(sequence)):
        header = {"msg_type": msg_type, "msg_id": "m"}
        message = {"header": header, "msg_type": msg_type, "parent_header": {"msg_id": "p"}, "content": content}
        try:
            client.process_message(message, cell, 0)
        except CellExecutionComplete:
            pass
    merged = []
    for output in cell.outputs:
        last = merged[-1] if merged else {}
        if output.output_type == "stream" == last.get("output_type") and output.name == last["name"]:
            last["text"] += output.text
        else:
            merged.append(output)
    cell.outputs = merged
    nbformat.validate(notebook)
    return merged


def main():
    logging.disable()
    if sys.argv[1:] == ["validate"]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("...")])
        notebook.cells[0].outputs = [nbformat.from_dict(output) for output in json.load(sys.stdin)]
        nbformat.validate(notebook)
        return
    rng = random.Random(5)
    sequences = [list(messages(rng)) for _ in range(60)]
    vectors = [{"messages": sequence, "outputs": outputs(sequence)} for sequence in sequences]
    print("[\n" + ",\n".join(json.dumps(vector, sort_keys=True) for vector in vectors) + "\n]")


main()
