"""A kernel that takes interrupts while the user's code runs, and at no other time.

ipykernel takes them from before a request is handled until after its reply. There a KeyboardInterrupt loses the reply,
leaves half of it in the socket, where it spoils the next one, or ends the kernel.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable
from signal import SIG_IGN, SIGINT, SIGWINCH, set_wakeup_fd, signal
from typing import Any, ClassVar

from ipykernel.ipkernel import IPythonKernel

from bridge import waker
from bridge.page import BusyPage
from bridge.shield import shield

Call = Callable[[], Any]
COMM_REQUESTS = ("comm_open", "comm_msg", "comm_close")


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class InterruptibleKernel(IPythonKernel):
    """Counts its cells where PID 1 can see it, and takes each interrupt once."""

    page: ClassVar[BusyPage]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._waking: asyncio.Future[None] | None = None
        waker.prepare()
        for kind in COMM_REQUESTS:
            self.shell_handlers[kind] = self._interruptible_handler(self.shell_handlers[kind])

    def start(self) -> None:
        super().start()  # type: ignore[no-untyped-call]
        # With a handler of any signal the event loop wakes for all of them: else an interrupted `await` sleeps on.
        self.io_loop.asyncio_loop.add_signal_handler(SIGWINCH, lambda: None)  # type: ignore[attr-defined]
        set_wakeup_fd(set_wakeup_fd(-1), warn_on_full_buffer=False)

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        if in_main_thread():
            # First, so that what is sent to a kernel that is seen to be busy is never lost.
            self._take_interrupts(shield.hold)
        self.page.cell_started()
        try:
            await super().execute_request(stream, ident, parent)  # type: ignore[no-untyped-call]
        finally:
            self.page.cell_finished()

    async def do_execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        count = self.execution_count
        try:
            try:
                reply: dict[str, Any] = await super().do_execute(*args, **kwargs)  # type: ignore[no-untyped-call]
                # A reader that stalls makes this wait, so it is done while an interrupt still gets through.
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                if in_main_thread():
                    self._ignore_interrupts()
        except KeyboardInterrupt as error:
            return self._interrupted(error, count)
        return reply

    def _interrupted(self, error: KeyboardInterrupt, count: int) -> dict[str, Any]:
        """The reply to a cell whose interrupt came just outside of the user's code."""
        self._ignore_interrupts()
        traceback = ["KeyboardInterrupt"]
        if self.shell is not None:
            self.shell._showtraceback(type(error), error, traceback)
        return {
            "status": "error",
            "ename": "KeyboardInterrupt",
            "evalue": "",
            "traceback": traceback,
            "execution_count": count,
            "user_expressions": {},
            "payload": [],
        }

    async def do_complete(self, *args: Any) -> Any:
        stock = super().do_complete
        return await self._interruptible(lambda: stock(*args))  # type: ignore[no-untyped-call]

    async def do_inspect(self, *args: Any, **kwargs: Any) -> Any:
        stock = super().do_inspect
        return await self._interruptible(lambda: stock(*args, **kwargs))  # type: ignore[no-untyped-call]

    def _interruptible_handler(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        async def handler(*args: Any) -> None:
            await self._interruptible(lambda: stock(*args))

        return handler

    async def _interruptible(self, call: Call) -> Any:
        # Comms are handled also while a cell waits; then it is the cell that an interrupt is for.
        takes = in_main_thread() and not self.page.interrupts.taken
        try:
            if takes:
                self._take_interrupts(shield.reset)
            result = call()
            return await result if inspect.isawaitable(result) else result
        finally:
            if takes:
                self._ignore_interrupts()

    def _take_interrupts(self, prepare: Callable[[], None]) -> None:
        prepare()
        # In this order: what is signalled while it would be ignored is lost.
        signal(SIGINT, shield.on_interrupt)
        self.page.interrupts.taken = True

    def _ignore_interrupts(self) -> None:
        try:
            signal(SIGINT, SIG_IGN)
        except KeyboardInterrupt:
            # Too late: the code has ended.
            signal(SIGINT, SIG_IGN)
        self.page.interrupts.taken = False

    def pre_handler_hook(self) -> None:
        """Interrupts are let through later than here, where nobody would catch them."""

    def post_handler_hook(self) -> None:
        """Comes once more after the user's code, should an interrupt have ended `_ignore_interrupts`."""
        if in_main_thread():
            self._ignore_interrupts()

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        signals = self.page.interrupts.kernel_signals(str(parent["header"].get("msg_id")), self.page.started)
        taken, before = self.page.interrupts.taken, shield.interrupts
        if taken and signals:
            await super().interrupt_request(stream, ident, parent)  # type: ignore[no-untyped-call]
        elif self.session is not None:
            content: dict[str, Any] = {"status": "ok"} if taken else {"status": "ok", "idle": True}
            self.session.send(stream, "interrupt_reply", content, parent, ident=ident)
        if taken:
            self._waking = asyncio.ensure_future(waker.wake_until(lambda: shield.interrupts != before))
