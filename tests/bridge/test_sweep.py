"""Nothing that a kernel started outlives it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

import pytest

from support import Bridge, Cell, alive, run, wait_until

SETSID_GRANDCHILDREN = """
import os, time
def spawn():
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            import signal
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(w, str(os.getpid()).encode())
            time.sleep(600)
        os._exit(0)
    return int(os.read(r, 20))
pids = [spawn() for _ in range(10)]
pids
"""

STORM = """
import subprocess, sys
code = '''
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
marker = sys.argv[1]
while True:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
    time.sleep(0.005)
'''
p = subprocess.Popen([sys.executable, '-c', code, MARKER], start_new_session=True)
"""


def with_marker(marker: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and marker.encode() in open(f"/proc/{name}/cmdline", "rb").read().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("way", ["restart", "exit", "kill", "shutdown"])
def test_grandchildren_in_their_own_sessions_go_with_the_kernel(bridge: Bridge, way: str) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    pids = eval(run(client, SETSID_GRANDCHILDREN).result())
    assert len(pids) == 10
    assert all(map(alive, pids))
    if way == "restart":
        assert control.request("start")["generation"] == 2
    elif way == "shutdown":
        assert control.request("shutdown")["ok"]
        control.close()
        bridge.exit_code()
    else:
        Cell(client, "os._exit(0)" if way == "exit" else "os.kill(os.getpid(), 9)")
        control.event("exit")
    # Once it is said that the kernel ended, all of them have.
    assert not [pid for pid in pids if alive(pid)]


def test_a_background_process_lives_as_long_as_the_kernel(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    pids = eval(run(client, SETSID_GRANDCHILDREN).result())
    control.request("ping")
    run(client, "1")
    assert all(map(alive, pids))


def test_a_storm_of_forks_is_ended(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    marker = f"storm-{os.getpid()}"
    run(client, STORM.replace("MARKER", repr(marker)))
    wait_until("a storm", lambda: len(with_marker(marker)) > 40)
    assert control.request("start")["ok"]
    assert with_marker(marker) == []


def test_a_kernel_that_kills_its_keeper_is_ended(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    pids = eval(run(client, SETSID_GRANDCHILDREN).result())
    kernel = int(run(client, "os.getpid()").result())
    Cell(client, "import signal; os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)")
    assert control.event("exit")["signal"] == signal.SIGKILL
    assert not [pid for pid in [kernel, *pids] if alive(pid)]
    assert run(bridge.client(control.request("start")), "1").result() == "1"


def limit_descriptors(bridge: Bridge, soft: int) -> None:
    """As any code of the same user can."""
    hard = resource.prlimit(bridge.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(bridge.process.pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_processes_that_cannot_be_seen_are_not_told_as_ended(bridge: Bridge) -> None:
    control = bridge.controller()
    kernel = int(run(bridge.client(control.request("start")), "import os; os.getpid()").result())
    soft = resource.prlimit(bridge.process.pid, resource.RLIMIT_NOFILE)[0]
    limit_descriptors(bridge, 3)
    assert control.request("start")["code"] == "sweep"
    assert alive(kernel) and not control.events
    limit_descriptors(bridge, soft)
    assert control.request("start")["ok"]
    assert not alive(kernel)


def test_a_cell_whose_kernel_cannot_be_ended_in_time_ends_the_session(start_bridge: Callable[..., Bridge]) -> None:
    bridge = start_bridge("--lease", "detached")
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    run(client, "import os")
    control.send({"type": "deadline", "ms": 100, "grace_ms": 100})
    Cell(client, "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: pass")
    limit_descriptors(bridge, 3)
    control.close()
    assert bridge.exit_code() == 1


def test_what_a_kernel_leaves_beside_the_sockets_goes_with_it(bridge: Bridge) -> None:
    control = bridge.controller()
    control.request("start")
    sockets = sorted(os.listdir(bridge.runtime_dir))
    (bridge.runtime_dir / "k9-1").mkdir()
    (bridge.runtime_dir / "k9-1" / "x").touch()
    (bridge.runtime_dir / "kx-1").touch()
    (bridge.runtime_dir / "x").symlink_to("/")
    control.request("start")
    assert sorted(os.listdir(bridge.runtime_dir)) == [name.replace("k1-", "k2-") for name in sockets]


def test_a_keeper_that_is_stopped_goes_on(bridge: Bridge) -> None:
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    run(client, "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)")
    Cell(client, "os._exit(4)")
    assert control.event("exit")["code"] == 4
