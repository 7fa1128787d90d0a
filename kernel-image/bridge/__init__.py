"""The bridge: PID 1 of a session's container. PROTOCOL.md is its contract."""
