"""The kernel process: ipykernel, bound to the sockets that it is given, and kept honest about its output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, ClassVar

import ipykernel.iostream
import ipykernel.kernelapp
import zmq
from ipykernel.heartbeat import Heartbeat
from ipykernel.kernelapp import IPKernelApp
from traitlets import Float
from traitlets.config import Config

from bridge import last_words, linux, packing, shell, sockets, streams
from bridge.cgroup import OomWatch
from bridge.interruptible import InterruptibleKernel
from bridge.recorder import Recorder
from bridge.threads import pin_threads
from bridge.zygote import Spec

IOPUB_SEND_LIMIT = 4
"""In messages, and one may have 16 MiB."""
OOM_SCORE = "1000"
OOM_NOTE = "cellblock: out of memory: a process that this code had started was killed"


@contextmanager
def replaced(owner: ModuleType | type, name: str, value: object) -> Iterator[None]:
    """ipykernel makes these objects by this name and has no other place to choose their class."""
    stock = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, stock)


def bind_given(socket: zmq.Socket[bytes], prefix: str, port: int, listeners: list[int]) -> None:
    """Binds a socket on listening descriptors. libzmq takes them over and closes them."""
    for descriptor in listeners:
        socket.setsockopt(zmq.USE_FD, descriptor)
        socket.bind(f"ipc://{prefix}-{port}")


class GivenHeartbeat(Heartbeat):
    """Binds in its own thread, on its own context."""

    listeners: ClassVar[list[int]] = []

    def _try_bind_socket(self) -> None:
        bind_given(self.socket, self.ip, self.port, self.listeners)


class Kernel(InterruptibleKernel):
    """ipykernel's kernel with what this package changes in it."""

    shell_class = shell.ZMQInteractiveShell
    _execute_sleep = Float(0.0).tag(config=True)
    oom_watch: ClassVar[OomWatch]

    async def do_execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await super().do_execute(*args, **kwargs)
        if self.oom_watch.has_struck():
            # The code itself sees a child that was killed, if it looks. It may have closed this stream, too.
            with suppress(Exception):
                print(OOM_NOTE, file=sys.stderr)
        if "evalue" in reply:
            reply["evalue"] = shell.cut(reply["evalue"], shell.MAX_EVALUE)
        return reply


class GivenSockets(IPKernelApp):
    """ipykernel's application as it comes, but for the sockets that it listens on."""

    listeners: ClassVar[list[list[int]]] = []

    def _try_bind_socket(self, s: Any, port: int) -> int:
        bind_given(s, self.ip, port, self.listeners[port - 1])
        return port

    def init_heartbeat(self) -> None:
        GivenHeartbeat.listeners = self.listeners[self.hb_port - 1]
        with replaced(ipykernel.kernelapp, "Heartbeat", GivenHeartbeat):
            super().init_heartbeat()


class App(GivenSockets):
    """The application with what this package changes in it."""

    kernel_class = Kernel

    def parse_command_line(self, argv: Any = None) -> None:
        """There is none, and finding that out takes a tenth of a kernel's start."""

    def init_sockets(self) -> None:
        # By itself the logger makes every debug record, and its handler drops them.
        self.log.setLevel(self.log_level)
        self.session.pack = packing.only_unicode(self.session.pack)
        super().init_sockets()

    def init_iopub(self, context: Any) -> None:
        # An XPUB drops what a slow subscriber does not take; the options must be there before the socket is used.
        context.setsockopt(zmq.XPUB_NODROP, 1)
        context.setsockopt(zmq.SNDHWM, IOPUB_SEND_LIMIT)
        with replaced(ipykernel.kernelapp, "IOPubThread", streams.Publisher):
            super().init_iopub(context)
        context.sockopts.clear()

    def init_io(self) -> None:
        with replaced(ipykernel.iostream, "OutStream", streams.Stream):
            super().init_io()

    def init_shell(self) -> None:
        super().init_shell()
        pin_threads(self.shell, sys.stdout, sys.stderr, self.displayhook)
        last_words.keep(self.iopub_thread, (sys.stdout, sys.stderr), self.listeners[self.iopub_port - 1])


def configuration(spec: Spec) -> Config:
    """What the kernel would otherwise read from a connection file and its command line."""
    config = Config()
    config.IPKernelApp.connection_file = f"{spec.prefix}.json"
    config.IPKernelApp.transport = "ipc"
    config.IPKernelApp.ip = spec.prefix
    for port, channel in enumerate(("shell", "stdin", "control", "iopub", "hb"), start=1):
        config.IPKernelApp[f"{channel}_port"] = port
    config.Session.key = spec.key.encode()
    # Its first completion takes a second or more; IPython's own looks at the objects that are there.
    config.IPCompleter.use_jedi = False
    # Switched off, it would break history requests.
    config.HistoryManager.hist_file = ":memory:"
    return config


def undo_hardening() -> None:
    """PID 1's protection is inherited; the kernel's process is its user's to trace and to kill first."""
    linux.set_dumpable(True)
    try:
        # Possible only now: while a process is not dumpable its files in /proc are root's.
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(OOM_SCORE)
    except OSError:
        pass


def redirect_to_null(*descriptors: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def clean_imports() -> None:
    """A cell's imports find the user's modules in the work directory, and never ours."""
    for name in [name for name in sys.modules if name == "bridge" or name.startswith("bridge.")]:
        del sys.modules[name]
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [path for path in sys.path if path != ours]
    # After the standard library, where IPython puts it unless Python is isolated, as ours is.
    packages = [at for at, path in enumerate(paths) if os.path.basename(path) in ("site-packages", "dist-packages")]
    paths.insert(packages[0] if packages else 0, "")
    sys.path[:] = paths


def main(spec: Spec) -> int:
    """Runs the kernel to its end in this freshly forked process."""
    os.setsid()
    undo_hardening()
    # What a cell prints is not for the container's log.
    redirect_to_null(*((0,) if spec.stock else (0, 1)))
    if os.path.isdir("/workspace"):
        os.chdir("/workspace")
    sys.argv = [ipykernel.kernelapp.__file__]
    Kernel.page = spec.page
    Kernel.oom_watch = OomWatch()
    streams.Publisher.recorder = Recorder(spec.recording) if spec.recording else None
    GivenSockets.listeners = spec.listeners
    app = (GivenSockets if spec.stock else App).instance(config=configuration(spec))
    clean_imports()
    with replaced(zmq.Context, "_socket_class", zmq.Socket if spec.stock else sockets.Socket):
        app.initialize([])
    app.start()
    return 0
