"""Message ids in shared memory."""

from __future__ import annotations


def name_of(msg_id: str) -> int:
    """A word that stands for a message id, never 0. PID 1 and the kernels that it forks share the secret of `hash`."""
    return hash(msg_id) % (1 << 64) or 1
