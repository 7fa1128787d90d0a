"""The kernel of this session as PID 1 keeps it: forked, watched, interrupted, ended, one generation after the other."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector

from bridge import zygote
from bridge.cgroup import oom_kills
from bridge.links import SOCKET_NAME, remove
from bridge.page import BusyPage
from bridge.peer import Message
from bridge.recording import Recording
from bridge.sweep import sweep
from bridge.zygote import ForkFailed, Kernel, Spec


class CannotStart(Exception):
    """No new kernel: the old one's processes cannot be ended (`sweep`), or there can be no fork (`fork`)."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Kernels:
    """At most one kernel runs at a time."""

    def __init__(self, runtime_dir: str, stock: bool, recording: Recording | None, selector: DefaultSelector) -> None:
        self._runtime_dir = runtime_dir
        self._selector = selector
        self._pid = os.getpid()
        self._generation = 0
        self._ending = False
        self._wakeup, self._wakeup_in = socket.socketpair()
        self._stock = stock
        self._recording = recording
        self.current: Kernel | None = None
        self.last_exit: Message | None = None
        self.tell: Callable[[Message], None] = lambda _event: None
        self.ended: Callable[[Kernel, Message], None] = lambda _kernel, _exit: None

    def watch_children(self) -> None:
        """From here on the end of a child wakes the loop."""
        self._wakeup.setblocking(False)
        self._wakeup_in.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_in.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wakeup, EVENT_READ, lambda _: self._drain_wakeup())

    def _drain_wakeup(self) -> None:
        try:
            while self._wakeup.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _wait_for_child(self, seconds: float) -> None:
        select.select([self._wakeup], [], [], seconds)
        self._drain_wakeup()

    # Starting and ending

    def start(self, host_listeners: list[int], close_in_child: Callable[[], None]) -> Kernel:
        """Ends the running kernel, if there is one, and forks a new one. The host's listeners stay the caller's."""
        if not self.end():
            raise CannotStart("sweep", "the processes of the last kernel cannot be ended")
        generation = self._generation + 1
        prefix = os.path.join(self._runtime_dir, f"k{generation}")
        own: list[int] = []
        try:
            zygote.listen(prefix, own)
            for descriptor in host_listeners:
                os.set_blocking(descriptor, False)
            # The last bind names the endpoint that the kernel itself connects to, so its own come last.
            listeners = [[*host_listeners[i : i + 1], descriptor] for i, descriptor in enumerate(own)]
            spec = Spec(generation, os.urandom(32).hex(), prefix, listeners, BusyPage(), self._recording, self._stock)
            kernel = zygote.fork(spec, close_in_child, oom_kills())
        except (OSError, ForkFailed) as error:
            self.end()
            raise CannotStart("fork", str(error)) from error
        finally:
            # Not in the forked kernel, which leaves here by `BecomeKernel` and needs them.
            if self._in_init():
                for descriptor in own:
                    os.close(descriptor)
        self._generation = generation
        self.current = kernel
        self._selector.register(kernel.report, EVENT_READ, lambda _: self._read_report(kernel))
        return kernel

    def _in_init(self) -> bool:
        return os.getpid() == self._pid

    def end(self) -> bool:
        """Ends the kernel and every other child with all that they started. Returns whether that worked."""
        kernel = self.current
        if kernel is not None:
            kernel.read_report()
        ended_itself = kernel is not None and kernel.exit_status is not None
        self._ending = True
        clean = sweep(self._reap, self._wait_for_child)
        self._ending = False
        if kernel is not None and clean:
            self._ended(kernel, by_us=not ended_itself)
        self._clear()
        return clean

    def _clear(self) -> None:
        """Removes the kernel's sockets, and all else that its code has put beside them: there is little room."""
        try:
            # It is its user's to close, too.
            os.chmod(self._runtime_dir, 0o700)
            with os.scandir(self._runtime_dir) as scan:
                entries = [entry for entry in scan if entry.name != SOCKET_NAME]
        except OSError:
            return  # what that keeps from working says so itself
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                import shutil  # hardly ever needed, and what is imported here delays the first answer

                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                remove(entry.path)

    def interrupt(self) -> None:
        """Signals the running cell."""
        self._send_interrupt()
        self._send(signal.SIGCONT)

    def interrupt_if_needed(self, msg_id: str | None) -> bool:
        """Signals the running code if the kernel has not done so by itself, in answer to that `interrupt_request`.

        Returns whether there was code that a signal could reach.
        """
        kernel = self.current
        if kernel is None:
            return False
        taken = self._stock or kernel.page.interrupts.taken
        if taken and kernel.page.interrupts.init_signals(msg_id, kernel.page.started):
            self._send_interrupt()
        self._send(signal.SIGCONT)
        return taken

    def _send_interrupt(self) -> None:
        """To the whole process group, as the kernel itself does: `os.system` waits for a child and nothing else."""
        if self.current is not None:
            try:
                os.killpg(self.current.pid, signal.SIGINT)
            except OSError:  # just forked, it has no group of its own
                self._send(signal.SIGINT)

    def _send(self, number: int) -> None:
        if self.current is not None:
            try:
                os.kill(self.current.pid, number)
            except OSError:
                pass

    def cell_announced(self) -> None:
        """Only what is killed from here on can have been this cell."""
        if self.current is not None:
            self.current.oom_kills = oom_kills()

    def busy(self) -> bool | None:
        """Whether a cell runs; `None` for a stock kernel, which does not count its cells."""
        if self.current is None:
            return False
        return None if self._stock else self.current.page.busy()

    def last_change(self, now: float) -> float:
        """When a cell last started or finished in the running kernel; 0 if none did."""
        return 0.0 if self.current is None else self.current.page.last_change(now)

    # Watching

    def tick(self) -> None:
        """Collects ended children and ends those that are not ours."""
        self._reap()
        kernel = self.current
        if kernel is not None and kernel.keeper_ended:
            kernel.read_report()
        if kernel is not None and (kernel.keeper_ended or kernel.exit_status is not None):
            # Without a kernel nothing that it started goes on. If it lives, somebody killed its keeper.
            self._ending = True
            sweep(self._reap, self._wait_for_child)
            self._ending = False
            self._ended(kernel, by_us=False)
        self.end_strays(seconds=1.0)

    def end_strays(self, seconds: float) -> bool:
        """Ends children that are not ours. Returns whether none is left."""
        spare = () if self.current is None else (self.current.keeper_pid,)
        return sweep(self._reap, self._wait_for_child, spare, seconds)

    def _reap(self) -> bool:
        """Collects what has ended. Returns whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            kernel = self.current
            if kernel is None:
                continue
            if os.WIFSTOPPED(status):
                if pid == kernel.keeper_pid and not self._ending:
                    os.kill(pid, signal.SIGCONT)  # its kernel, of the same user, can stop it
            elif pid == kernel.keeper_pid:
                kernel.keeper_ended = True
            elif pid == kernel.pid:
                kernel.exit_status = status

    def _read_report(self, kernel: Kernel) -> None:
        # The descriptor of one that has ended meanwhile is closed.
        if kernel is self.current:
            kernel.read_report()

    def _ended(self, kernel: Kernel, *, by_us: bool) -> None:
        status = kernel.exit_status
        self._selector.unregister(kernel.report)
        code = os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None
        killed_by = None
        if code is None:
            killed_by = os.WTERMSIG(status) if status is not None else int(signal.SIGKILL)
        rise = oom_kills() - kernel.oom_kills
        self.last_exit = {
            "type": "exit",
            "generation": kernel.generation,
            "code": code,
            "signal": killed_by,
            "oom": killed_by == signal.SIGKILL and not by_us and rise > 0,
        }
        self.current = None
        kernel.close()
        self.ended(kernel, self.last_exit)
        self.tell(self.last_exit)

    def close_in_child(self) -> None:
        signal.set_wakeup_fd(-1)
        self._wakeup.close()
        self._wakeup_in.close()
