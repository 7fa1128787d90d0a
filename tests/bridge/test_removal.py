"""The removal of trees, where others have their hands in them too."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from support import BRIDGE

sys.path.insert(0, str(BRIDGE.parent))

from bridge.removal import remove_tree


def test_what_is_removed_beside_it_does_not_fail_a_removal(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"top/{number}").mkdir(parents=True)
        (tmp_path / f"top/{number}/file").touch()
    calls = 0

    def remove_all() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # it is in the first of the directories
            for path in (tmp_path / "top").iterdir():
                shutil.rmtree(path)

    parent = os.open(tmp_path, os.O_RDONLY)
    remove_tree(b"top", parent, remove_all)
    os.close(parent)
    assert calls == 2
    assert not list(tmp_path.iterdir())
