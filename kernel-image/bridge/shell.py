"""What a cell shows: outputs of bounded size, and a hint where the answer is not in the traceback."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any

from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.zmqshell import ZMQDisplayPublisher
from ipykernel.zmqshell import ZMQInteractiveShell as StockShell

from bridge.shield import shield

MAX_OUTPUT = 16 << 20
MAX_TRACEBACK_LINE = 64 * 1024
MAX_EVALUE = 64 * 1024

DISTRIBUTIONS = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Where the package to install is not called like the module."""


def _size(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    try:
        return len(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError):
        return 0


def bounded(data: dict[str, Any]) -> dict[str, Any]:
    """The MIME bundle, or a note in its place if it is too large to send."""
    size = sum(map(_size, data.values()))
    if size <= MAX_OUTPUT:
        return data
    kinds = ", ".join(data)
    limit = MAX_OUTPUT >> 20
    return {"text/plain": f"[output of {size} bytes ({kinds}) left out: the limit is {limit} MiB for one output]"}


class DisplayPublisher(ZMQDisplayPublisher):
    def publish(self, data: dict[str, Any], metadata: Any = None, **kwargs: Any) -> None:  # type: ignore[override]
        super().publish(bounded(data), metadata, **kwargs)


class DisplayHook(ZMQShellDisplayHook):
    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        super().write_format_data(bounded(format_dict), md_dict)


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… [{len(text) - limit} characters left out]"


def has_network() -> bool:
    """Whether any route leads out of this network namespace."""
    try:
        with open("/proc/net/route", encoding="ascii") as routes:
            if len(routes.readlines()) > 1:
                return True
        with open("/proc/net/ipv6_route", encoding="ascii") as routes:
            return any(not line.rstrip().endswith(" lo") for line in routes)
    except OSError:
        return False


def missing_module_hint(error: BaseException) -> str | None:
    """What to do about a `ModuleNotFoundError` where `pip install` cannot help."""
    name = getattr(error, "name", None)
    if not isinstance(error, ModuleNotFoundError) or not isinstance(name, str) or has_network():
        return None
    top = name.partition(".")[0]
    return (
        f"hint: this session has no network, so `pip install` cannot get {top!r}; "
        f"make an image that has it: cellblock image build --with {DISTRIBUTIONS.get(top, top)}"
    )


def end_in_the_users_code(traceback: TracebackType | None) -> None:
    """Cuts an interrupt's traceback where it comes to us: it is about the code that was interrupted."""
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep
    while traceback is not None and traceback.tb_next is not None:
        if traceback.tb_next.tb_frame.f_code.co_filename.startswith(ours):
            traceback.tb_next = None
        traceback = traceback.tb_next


class Shown:
    """Stands for an exception whose text is too long to send."""

    def __init__(self, error: object) -> None:
        self._text = cut(str(error), MAX_EVALUE)

    def __str__(self) -> str:
        return self._text


class ZMQInteractiveShell(StockShell):
    """Keeps its name: programs look at it to find out whether they run in a notebook."""

    displayhook_class = DisplayHook
    display_pub_class = DisplayPublisher

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> bool:
        try:
            shield.release()
        except KeyboardInterrupt as error:
            # It came before this code, which is what a traceback would be about.
            if result is not None:
                result.error_in_exec = error
            self.showtraceback(exception_only=True)
            return True
        return bool(await super().run_code(code_obj, result, async_=async_))

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        info = super()._get_exc_info(exc_tuple)
        if issubclass(info[0], KeyboardInterrupt):
            end_in_the_users_code(info[2])
        return info

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        lines = [cut(line, MAX_TRACEBACK_LINE) for line in stb]
        hint = missing_module_hint(evalue)
        if hint:
            lines.append(hint)
        super()._showtraceback(etype, Shown(evalue), lines)


ZMQInteractiveShell.__module__ = StockShell.__module__
