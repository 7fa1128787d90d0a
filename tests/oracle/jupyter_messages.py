"""Jupyter messages by jupyter_client, which cellblock's own reader and writer must agree with.

    jupyter_messages.py write > jupyter_messages.json    messages, and what jupyter_client reads from them
    jupyter_messages.py read < FRAMES                    what jupyter_client reads from cellblock's messages

Frames are in base64. Needs jupyter_client.
"""

import base64
import json
import sys
import warnings

from jupyter_client.session import Session

warnings.simplefilter("ignore")


def encode(frames):
    return [base64.b64encode(frame).decode() for frame in frames]


def session(key):
    return Session(key=key.encode(), session="5e5510", username="user", check_pid=False)


def deserialize(key, frames):
    """What jupyter_client makes of the frames, or null if it refuses them."""
    reader = session(key)
    _, rest = reader.feed_identities(frames)
    try:
        message = reader.deserialize(rest)
    except (ValueError, TypeError):
        return None
    return {
        "header": {name: message["header"][name] for name in ("msg_id", "session", "username", "msg_type", "version")},
        "date": message["header"]["date"].timestamp() if message["header"].get("date") else None,
        "parent_id": message["parent_header"].get("msg_id"),
        "content": message["content"],
    }


def messages():
    """Name, type, content, and the other arguments of Session.send."""
    parent = {"header": session("k").msg_header("execute_request")}
    yield "no parent", "status", {"execution_state": "starting"}, {}
    yield (
        "topic",
        "stream",
        {"name": "stdout", "text": "x\n"},
        {"parent": parent, "ident": b"stream.stdout"},
    )
    yield (
        "identities",
        "execute_reply",
        {"status": "ok", "execution_count": 1},
        {"parent": parent, "ident": [b"a", b"\x00b"]},
    )
    yield (
        "buffers",
        "comm_msg",
        {"comm_id": "c", "data": {}},
        {"parent": parent, "buffers": [b"\x00\xff", b"<IDS|MSG>"]},
    )
    yield (
        "metadata",
        "display_data",
        {"data": {"text/plain": "\u00e9\U0001f600"}, "metadata": {}},
        {"metadata": {"a": [1, {}]}},
    )
    yield (
        "escapes",
        "stream",
        {"name": "stderr", "text": '\x00\x1b[31m\u2028\\"\U0001f600'},
        {},
    )
    yield (
        "numbers",
        "custom",
        {"a": 1e308, "b": -0.0, "c": 2**53, "d": True, "e": None},
        {},
    )
    yield "unknown type", "bogus_reply", {}, {"parent": parent}
    yield "large", "stream", {"name": "stdout", "text": "0123456789" * 300}, {}


def write():
    vectors = []

    def add(name, key, frames):
        vectors.append(
            {
                "name": name,
                "key": key,
                "frames": encode(frames),
                "read": deserialize(key, frames),
            }
        )

    for key in ("a0436f6c-1916-498b-8eb9-e81ab9368e84", "k", "long" * 50):
        for name, msg_type, content, more in messages():
            more = dict(more)
            writer = session(key)
            identities = more.pop("ident", None)
            buffers = more.pop("buffers", [])
            frames = writer.serialize(writer.msg(msg_type, content, **more), ident=identities) + buffers
            add(name, key, frames)
            for at in range(1, 6):
                forged = list(frames)
                position = forged.index(b"<IDS|MSG>") + at
                forged[position] = forged[position][:-1] + bytes([forged[position][-1] ^ 1])
                if name == "topic":
                    add(f"{name}, frame {at} forged", key, forged)
    frames = session("k").serialize(session("k").msg("status", {"execution_state": "idle"}))
    add("another key", "other", frames)
    add("signature in capitals", "k", [frames[0], frames[1].upper(), *frames[2:]])
    add("missing frame", "k", frames[:-1])
    unsigned = session("").serialize(session("").msg("status", {"execution_state": "idle"}))
    add("unsigned", "", unsigned)
    add("unsigned where a signature is due", "k", unsigned)
    json.dump(vectors, sys.stdout, indent=1)
    print()


def read():
    for item in json.load(sys.stdin):
        frames = [base64.b64decode(frame) for frame in item["frames"]]
        print(json.dumps(deserialize(item["key"], frames)))


{"write": write, "read": read}[sys.argv[1]]()
