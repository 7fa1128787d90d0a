"""The keeper: a small process between PID 1 and the kernel.

What the kernel starts and abandons stays below the keeper, so that PID 1 can tell it from processes that escaped.
"""

from __future__ import annotations

import os
import signal
from struct import Struct

from bridge import linux

REPORT = Struct("=ci")  # what, and a pid, errno or wait status
FORKED, FAILED, ENDED = b"f", b"e", b"x"


def fork_kept(report: int, listeners: list[int]) -> bool:
    """Forks the kernel from the keeper, and keeps it. Returns `True` in the kernel, at once.

    In the keeper it returns `False`, when the kernel has ended or could not be forked.
    """
    linux.set_child_subreaper()
    linux.set_parent_death_signal(signal.SIGKILL)
    try:
        pid = os.fork()
    except OSError as error:
        os.write(report, REPORT.pack(FAILED, error.errno or 0))
        return False
    if pid == 0:
        return True
    for listener in listeners:
        os.close(listener)
    return _keep(report, pid)


def _keep(report: int, kernel: int) -> bool:
    os.write(report, REPORT.pack(FORKED, kernel))
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return False
        if pid == kernel:
            os.write(report, REPORT.pack(ENDED, status))
            # What the kernel left becomes PID 1's, which ends it.
            return False
