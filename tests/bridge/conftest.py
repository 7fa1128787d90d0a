"""Fixtures: bridges that are gone when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support import Bridge


@pytest.fixture
def start_bridge() -> Iterator[Callable[..., Bridge]]:
    """Starts bridges with the options given."""
    started: list[Bridge] = []

    def start(*options: str, host_socket: bool = False) -> Bridge:
        started.append(Bridge(*options, host_socket=host_socket))
        return started[-1]

    yield start
    for bridge in started:
        bridge.close()


@pytest.fixture
def bridge(start_bridge: Callable[..., Bridge]) -> Bridge:
    return start_bridge()
