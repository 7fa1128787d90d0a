"""What the bridge does when nobody is there: ends, or stops a cell that runs too long."""

from __future__ import annotations

import time
from collections.abc import Callable

from support import PATIENCE, Bridge, Cell, Control, run, wait_until

StartBridge = Callable[..., Bridge]
LOOP = "print('going', flush=True)\nwhile True: pass"
STUBBORN = "print('going', flush=True)\nwhile True:\n    try:\n        while True: sum(range(99))\n    except KeyboardInterrupt: pass"


def start_cell(bridge: Bridge, control: Control, code: str) -> Cell:
    """A cell that is known to run."""
    client = bridge.client(control.request("start"))
    run(client, "x = 41")
    cell = Cell(client, code)
    while not cell.of("stream"):
        cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
    return cell


def test_an_owned_session_ends_after_its_controller_busy_or_not(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--orphan-grace", "0.3")
    control = bridge.controller()
    start_cell(bridge, control, LOOP)
    control.close()
    left = time.monotonic()
    assert bridge.exit_code() == 10
    assert time.monotonic() - left >= 0.3


def test_a_controller_in_time_keeps_an_owned_session(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--orphan-grace", "3")
    bridge.controller().close()
    control = wait_until("the bridge to be free", lambda: reattached(bridge))
    assert control.request("ping")["ok"]
    assert bridge.process.poll() is None


def reattached(bridge: Bridge) -> Control | None:
    control = bridge.connect()
    return control if control.hello()["ok"] else None


def test_a_detached_session_ends_when_idle(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--lease", "detached", "--idle", "1")
    control = bridge.controller()
    assert control.hello()["lease"] == "detached"
    client = bridge.client(control.request("start"))
    cell = Cell(client, "import time; time.sleep(1.5); print(time.monotonic())")
    while not cell.of("execute_input"):
        cell.messages.append(client.get_iopub_msg(timeout=PATIENCE))
    control.close()
    cell.finish()  # busy for longer than the idle time, and not ended for it
    assert bridge.exit_code() == 11
    # By the kernel's clock: this process may have been late to hear of the end.
    assert time.monotonic() - float(cell.text()) >= 1


def test_a_session_ends_at_its_maximum_life_whatever_happens(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--max-life", "4")
    control = bridge.controller()
    assert bridge.exit_code() == 12
    assert control.receive() is None


def test_an_unattended_deadline_interrupts(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--lease", "detached")
    control = bridge.controller()
    cell = start_cell(bridge, control, LOOP)
    control.send({"type": "deadline", "ms": 300, "grace_ms": 10_000})
    control.close()
    assert cell.finish().reply["ename"] == "KeyboardInterrupt"
    assert run(cell.client, "x + 1").result() == "42"


def test_an_unattended_deadline_restarts_a_kernel_that_does_not_listen(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--lease", "detached")
    control = bridge.controller()
    start_cell(bridge, control, STUBBORN)
    control.send({"type": "deadline", "ms": 200, "grace_ms": 300})
    control.close()

    def restarted() -> bool:
        control = reattached(bridge)
        assert control is not None
        hello = control.hello()
        control.close()
        return bool(hello["kernel"] and hello["kernel"]["generation"] == 2 and hello["last_exit"]["signal"] == 9)

    wait_until("the next generation", lambda: (bridge.runtime_dir / "k2-1").exists())
    wait_until("a new kernel", restarted)


def test_an_attended_deadline_is_the_controllers(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--lease", "detached")
    control = bridge.controller()
    cell = start_cell(bridge, control, LOOP)
    control.send({"type": "deadline", "ms": 1, "grace_ms": 10_000})
    assert control.request("ping")["ok"]
    run_on = control.hello()["kernel"]
    assert (run_on["generation"], run_on["busy"]) == (1, True)
    # It is past when the controller goes, so it is enforced at once.
    control.close()
    assert cell.finish().reply["ename"] == "KeyboardInterrupt"


def test_a_cell_that_ended_in_time_is_left_alone(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--lease", "detached")
    control = bridge.controller()
    client = bridge.client(control.request("start"))
    control.send({"type": "deadline", "ms": 50, "grace_ms": 0})
    control.send({"type": "done"})
    control.request("ping")
    control.close()
    assert run(client, "import time; time.sleep(0.5); 1").result() == "1"
