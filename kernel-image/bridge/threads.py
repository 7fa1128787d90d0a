"""A thread's output belongs to the cell that started the thread, also when another cell runs by then.

ipykernel from 7.1 on gives it to the latest cell, unless the thread says otherwise; before, it does this by itself.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

ATTRIBUTE = "_cell_of_start"


class Output(Protocol):
    """Whatever sends messages in the name of a request."""

    def set_thread_parent(self, parent: dict[str, Any]) -> object: ...


def pin_threads(shell: Any, *outputs: Any) -> None:
    """From here on a thread is given the request that its starter works for."""
    pinned: list[Output] = [output for output in (shell, *outputs) if hasattr(output, "set_thread_parent")]
    if pinned:
        threading.Thread.start = _starting(shell, threading.Thread.start)  # type: ignore[method-assign]
        bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
        threading.Thread._bootstrap_inner = _pinned(pinned, bootstrap)  # type: ignore[attr-defined]


def _starting(shell: Any, stock: Any) -> Any:
    def start(self: threading.Thread) -> None:
        parent = shell.get_parent()
        # What ipykernel itself starts before any request stays free.
        if parent:
            self.__dict__[ATTRIBUTE] = parent
        stock(self)

    start.__doc__ = stock.__doc__
    return start


def _pinned(outputs: list[Output], stock: Any) -> Any:
    def bootstrap(self: threading.Thread) -> None:
        parent = self.__dict__.pop(ATTRIBUTE, None)
        if parent is not None:
            for output in outputs:
                output.set_thread_parent(parent)
        stock(self)

    return bootstrap
