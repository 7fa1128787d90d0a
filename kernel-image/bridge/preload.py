"""Importing all that a kernel needs, once, before the first fork."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import tempfile
from contextlib import suppress

FONT_CACHE = "/opt/cellblock/share/matplotlib"

LATE_IMPORTS = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "encodings.ascii",
    "faulthandler",
    "ipykernel.debugger",
    "pdb",
    "runpy",
    "sqlite3",
    "tornado.locks",
    "tornado.platform.asyncio",
    "tornado.queues",
)
"""What every kernel imports only while it starts."""


def prepare_environment() -> None:
    """The kernel's environment. ipykernel reads some of it when it is imported."""
    for name in [name for name in os.environ if name.startswith(("CELLBLOCK_", "JPY_"))]:
        del os.environ[name]
    # Otherwise the kernel watches its parent, and says on stdout how to connect to it.
    os.environ["JPY_PARENT_PID"] = "1"
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    if os.getpid() == 1:
        _make_homes()


def _make_homes() -> None:
    """The root is read-only, so what programs keep at home is made in the tmpfs."""
    try:
        os.makedirs(os.environ.get("HOME", "/tmp/home"), mode=0o700, exist_ok=True)
        fonts = os.environ.get("MPLCONFIGDIR")
        if fonts and os.path.isdir(FONT_CACHE):
            shutil.copytree(FONT_CACHE, fonts, dirs_exist_ok=True)
    except OSError:
        pass  # not our image; a program that needs its home says so itself


def import_kernel() -> None:
    """Imports ipykernel, and freezes what is there so that collections in a kernel leave its pages shared."""
    gc.disable()
    from bridge import launcher  # noqa: F401

    for name in LATE_IMPORTS:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    # Found by writing a file, and every cell asks for it: a kernel that starts with all filesystems full needs it, too.
    with suppress(OSError):
        tempfile.gettempdir()
    gc.collect()
    gc.freeze()
    gc.enable()
