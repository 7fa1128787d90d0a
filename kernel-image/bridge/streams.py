"""stdout, stderr and IOPub of the kernel: nothing lost, bounded memory, in order.

ipykernel hands each flush to its IOPub thread and waits for it. Here the flushing thread itself cuts its text into
messages and queues them, so order is that of the program whatever the reader does, and an empty flush costs nothing.
When the reader stalls, what produces output waits; what an interrupt needs to get through never does.
"""

from __future__ import annotations

import _thread
import codecs
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from ipykernel.iostream import IOPubThread, OutStream

from bridge.locks import Gate, locked
from bridge.recorder import Recorder, size_of
from bridge.shield import shield

MAX_TEXT = 256 * 1024
"""Most bytes of text in one stream message."""
BUFFERED_TEXT = 1 << 20
"""Characters that a stream gathers before it flushes by itself."""
QUEUE_BYTES = 2 << 20
QUEUE_MESSAGES = 1000
FLUSH_TIMEOUT = 0.2
PIPE_CHUNK = 64 * 1024
PIPE_CHUNKS_PER_FLUSH = 64

Texts = dict[str, tuple[dict[str, Any], list[str]]]
"""By `msg_id` of the request: its header, and the pieces of text."""

SMALL_TOPICS = (b"status", b"error", b"execute_input", b"shutdown")
NEVER_WAITING_THREADS = ("IOPub", "Control", "Shell channel", "Heartbeat")


class Publisher(IOPubThread):
    """The IOPub thread with a bounded queue, which records what it queues."""

    recorder: ClassVar[Recorder | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reset_room()
        os.register_at_fork(after_in_child=self._reset_room)

    def _reset_room(self) -> None:
        self._lock = threading.RLock()
        self._gate = Gate()
        self._queued_bytes = 0
        self._queued_messages = 0
        self._leaving: deque[tuple[list[Any], Callable[[], None]]] = deque()
        self._recording = False

    def schedule(self, f: Callable[[], Any]) -> None:
        if not self.thread.is_alive():
            f()
            return
        self._events.append(f)
        # Costs less than the wake-up by a socket, which the event loop then asks several times whether there is more.
        with suppress(RuntimeError):  # the loop has ended
            self.io_loop.asyncio_loop.call_soon_threadsafe(self._handle_event, None)  # type: ignore[attr-defined]

    def send_multipart(self, msg: list[Any], *args: Any, **kwargs: Any) -> None:
        if not self.thread.is_alive():
            self._really_send(msg, *args, **kwargs)
            return
        if not shield.holds() and not any(topic in _topic(msg) for topic in SMALL_TOPICS):
            self.wait_for_room()
        size = sum(map(size_of, msg))

        def send() -> None:
            try:
                self._really_send(msg, *args, **kwargs)
            finally:
                self._leave(size)

        with shield, self._lock:
            self._queued_bytes += size
            self._queued_messages += 1
            self._leaving.append((msg, send))
            self._record_and_queue()

    def _record_and_queue(self) -> None:
        """Both in one order: a lock keeps threads apart, and what a signal handler sends meanwhile comes after."""
        if self._recording:
            return
        self._recording = True
        try:
            while self._leaving:
                msg, send = self._leaving.popleft()
                if self.recorder is not None:
                    self.recorder.record(msg)
                self.schedule(send)
        finally:
            self._recording = False

    def _leave(self, size: int) -> None:
        with self._lock:
            self._queued_bytes -= size
            self._queued_messages -= 1
            if not self._events:
                # An interrupt between counting and queueing leaves a message counted that never comes.
                self._queued_bytes = self._queued_messages = 0
        if self._has_room():
            self._gate.open()

    def _has_room(self) -> bool:
        return self._queued_bytes < QUEUE_BYTES and self._queued_messages < QUEUE_MESSAGES

    def wait_for_room(self) -> None:
        """Waits while the reader is behind. A KeyboardInterrupt gets through."""
        if self._has_room() or threading.current_thread().name in NEVER_WAITING_THREADS:
            return
        while not self._has_room() and self.thread.is_alive():
            self._gate.wait(1.0, self._has_room)


def _topic(msg: list[Any]) -> bytes:
    return msg[0] if msg and isinstance(msg[0], bytes) else b""


class Stream(OutStream):
    """stdout or stderr."""

    flush_timeout = FLUSH_TIMEOUT  # type: ignore[assignment]
    pub_thread: Any
    _fid: int | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The base class starts the thread that reads the descriptor.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reset_locks()
        super().__init__(*args, **kwargs)
        os.register_at_fork(after_in_child=self._reset_locks)

    def _reset_locks(self) -> None:
        self._texts: Texts = {}
        self._gathered = 0
        self._texts_lock = threading.RLock()
        self._send_lock = threading.RLock()
        self._pipe_lock = threading.RLock()
        self._flush_pending = False

    def write(self, string: str) -> int:
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        parent = self.parent_header
        with self._texts_lock:
            self._texts.setdefault(parent.get("msg_id", ""), (parent, []))[1].append(string)
            self._gathered += len(string)
        if not self._is_master_process():
            self._send_texts()
        elif self._gathered >= BUFFERED_TEXT:
            self._send_gathered()
        else:
            self._schedule_flush()
        return len(string)

    def _schedule_flush(self) -> None:
        if not self._flush_pending:
            # An interrupt between noting that it will come and asking for it would be the last of the timed flushes.
            with shield:
                super()._schedule_flush()

    def _send_gathered(self) -> None:
        self.pub_thread.wait_for_room()
        locked(self._send_lock, FLUSH_TIMEOUT, self._send_texts)

    def flush(self) -> None:
        pub_thread = self.pub_thread
        if pub_thread is None:
            return
        if not self._is_master_process() or not pub_thread.thread.is_alive():
            self._send_texts()
            return
        locked(self._pipe_lock, FLUSH_TIMEOUT, self._drain_pipe)
        # If it takes longer, another thread is sending this very text, to a reader that stalls.
        sent = locked(self._send_lock, FLUSH_TIMEOUT, self._send_texts)
        if sent and threading.current_thread() is not pub_thread.thread:
            # So that text is on its way before code that ends the process at once.
            passed = _thread.allocate_lock()
            passed.acquire()
            pub_thread.schedule(passed.release)
            passed.acquire(timeout=self.flush_timeout)

    def _flush(self) -> None:
        """The timed flush, in the IOPub thread, which must not wait for a thread that waits for it."""
        self._flush_pending = False
        if locked(self._send_lock, 0, self._send_texts) is None and self._texts:
            self._schedule_flush()

    def _send_texts(self) -> bool:
        """Queues all gathered text as messages. Returns whether there was any."""
        texts: Texts = {}
        pieces: list[str] = []
        sent = 0
        try:
            with self._texts_lock:
                texts, self._texts = self._texts, {}
                self._gathered = 0
            for parent, pieces in texts.values():
                for part in split("".join(pieces)):
                    self.pub_thread.wait_for_room()
                    with shield:
                        self._send(part, parent)
                        sent += len(part)
                pieces.clear()
                sent = 0
        except BaseException:
            # An interrupt, which is none to text that was printed before it.
            pieces[:] = ["".join(pieces)[sent:]]
            self._send_rest(texts)
            raise
        return bool(texts)

    def _send_rest(self, texts: Texts) -> None:
        """Queues what an interrupt kept from being queued, whether there is room or not. It is not much, or is cut."""
        with shield:
            for parent, pieces in texts.values():
                text = "".join(pieces)
                if len(text) > 2 * BUFFERED_TEXT:
                    text = f"{text[:BUFFERED_TEXT]}… [{len(text) - BUFFERED_TEXT} characters left out]"
                for part in split(text):
                    self._send(part, parent)

    def _send(self, text: str, parent: dict[str, Any]) -> None:
        # Session refuses to send from a process other than the one that made it.
        self.session.pid = os.getpid()
        message = self.session.msg("stream", {"name": self.name, "text": text}, parent=parent)
        self.session.send(self.pub_thread, message, ident=self.topic)

    def _watch_pipe_fd(self) -> None:
        """Reads what C code and child processes write to the descriptor."""
        if self._fid is None:
            return
        ready = select.poll()
        ready.register(self._fid, select.POLLIN)
        try:
            while self._should_watch:
                ready.poll()
                self.pub_thread.wait_for_room()
                with self._pipe_lock:
                    # A flush may have been faster.
                    if ready.poll(0) and not self._read_pipe(self._fid):
                        return
        except Exception:  # noqa: BLE001
            self._exc = sys.exc_info()

    def _read_pipe(self, descriptor: int) -> bool:
        chunk = os.read(descriptor, PIPE_CHUNK)
        self.write(self._decoder.decode(chunk, final=not chunk))
        return bool(chunk)

    def _drain_pipe(self) -> None:
        """What a child process wrote before the flush belongs before what comes after it."""
        if self._fid is None or not self._should_watch:
            return
        ready = select.poll()
        ready.register(self._fid, select.POLLIN)
        for _ in range(PIPE_CHUNKS_PER_FLUSH):
            if not ready.poll(0) or not self._read_pipe(self._fid):
                return


def split(text: str) -> Iterator[str]:
    """Cuts text into parts of at most `MAX_TEXT` bytes of UTF-8, never within a character."""
    step = MAX_TEXT if text.isascii() else MAX_TEXT // 4
    if len(text) <= step:
        if text:
            yield text
        return
    for at in range(0, len(text), step):
        yield text[at : at + step]
