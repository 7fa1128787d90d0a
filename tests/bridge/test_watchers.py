"""Watchers: read-only connections beside the controller."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from recordings import read_recording
from relay_host import RelayHost
from support import BRIDGE, HEADER, Bridge, Control, Message, run, wait_until

StartBridge = Callable[..., Bridge]


@pytest.fixture
def detached(start_bridge: StartBridge) -> Bridge:
    return start_bridge("--lease", "detached")


def watch(control: Control) -> Message:
    return control.request("hello", v=1, watch=True)


def test_a_watcher_reads_beside_the_controller(detached: Bridge) -> None:
    control = detached.controller()
    started = control.request("start")
    client = detached.client(started)
    run(client, "print('seen')")
    watcher = detached.connect()
    hello = watch(watcher)
    assert hello | {"id": 0} == control.hello() | {"id": 0}
    reading = read_recording(watcher)
    assert reading.records == read_recording(control).records
    texts = [message["content"].get("text") for message in reading.messages(started["key"])]
    assert "seen\n" in texts
    # And again for what comes.
    run(client, "print('more')")
    assert watch(watcher)["cell"]["number"] == 2
    assert watcher.request("ping")["ok"]


def test_a_watcher_can_change_nothing(detached: Bridge) -> None:
    watcher = detached.connect()
    assert watch(watcher)["ok"]
    for kind in ("start", "interrupt", "shutdown", "dance"):
        assert watcher.request(kind, generation=1)["code"] in ("watch", "unknown")
    # Not even by saying hello once more.
    assert watcher.hello()["code"] == "watch"
    assert watcher.request("hello", v=1, watch=1)["code"] == "watch"
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, "1")
    watcher.send({"type": "done"})
    watcher.send({"type": "deadline", "ms": 0})
    hello = watch(watcher)
    assert (hello["cell"]["delivered"], hello["cell"]["deadline_ms"]) == (False, None)


def test_a_watcher_does_not_hold_the_session(detached: Bridge) -> None:
    watcher = detached.connect()
    assert watch(watcher)["ok"]
    control = detached.connect()
    assert control.hello()["ok"]
    # The controller is no watcher by saying so, and others are still held off.
    assert watch(control)["ok"]
    assert control.request("start")["ok"]
    assert detached.connect().hello()["code"] == "held"
    assert watch(watcher)["kernel"]["generation"] == 1
    # Events are the controller's.
    control.request("start")
    assert control.event("exit")["generation"] == 1
    assert watcher.request("ping")["ok"]
    assert not watcher.events


def test_a_ninth_watcher_is_told_that_it_is_one_too_many(detached: Bridge) -> None:
    watchers = [detached.connect() for _ in range(8)]
    for watcher in watchers:
        assert watch(watcher)["ok"]
    ninth = detached.connect()
    assert watch(ninth)["code"] == "busy"
    assert ninth.receive() is None
    assert watch(watchers[0])["ok"]
    assert detached.controller().request("ping")["ok"]
    watchers[3].close()

    def admitted() -> bool:
        return bool(watch(detached.connect())["ok"])

    wait_until("a place", admitted)


def test_a_watcher_keeps_no_session_alive(start_bridge: StartBridge) -> None:
    owned = start_bridge("--orphan-grace", "0.2")
    watcher = owned.connect()
    assert watch(watcher)["cell"] is None
    owned.controller().close()
    assert owned.exit_code() == 10
    detached = start_bridge("--lease", "detached", "--idle", "3")
    watcher = detached.connect()
    assert watch(watcher)["ok"]
    detached.controller().close()
    assert detached.exit_code() == 11
    assert watcher.receive() is None


def test_a_watcher_that_does_not_read_costs_only_itself(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, "print('x' * 4_000_000)")
    watcher = detached.connect()
    assert watch(watcher)["ok"]
    question = HEADER.pack(0, 0, len(payload := b'{"type":"record","id":1,"cell":1,"from":0}')) + payload
    with pytest.raises(OSError, match=r"pipe|reset"):
        watcher.sock.sendall(question * 10_000)
    assert control.request("ping")["ok"]
    assert run(client, "1 + 1").result() == "2"


def test_a_relay_carries_a_whole_recording(detached: Bridge) -> None:
    control = detached.controller()
    client = detached.client(control.request("start"))
    run(client, "print('x' * 4_000_000)")
    command = [sys.executable, "-IS", str(BRIDGE), "relay", "--runtime-dir", str(detached.runtime_dir)]
    host = RelayHost(command, detached.directory.name)
    assert watch(host.control)["ok"]
    assert (read_recording(host.control).records == read_recording(control).records) is True
    host.close()
