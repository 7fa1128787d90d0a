"""`bridge files` as a plain process, over each of its connections: what it answers, refuses, and leaves behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import BRIDGE, HEADER, PATIENCE, Message, wait_until

DATA, OPEN, CLOSE, CREDIT = range(4)
MESSAGES, CONTENT = 0, 1
LIMITS = {"max_entries": 1000, "max_bytes": 1 << 30, "temporary": ".cellblock-0"}


def frame(stream: int, kind: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(stream, kind, len(payload)) + payload


def say(**message: Any) -> bytes:
    return frame(MESSAGES, DATA, json.dumps(message).encode())


def ask(op: str, path: str, **fields: Any) -> bytes:
    return say(op=op, path=path, **{**LIMITS, **fields})


def file(path: str, content: bytes, executable: bool = False) -> bytes:
    entry = say(type="entry", path=path, kind="file", executable=executable)
    pieces = [content[at : at + 1000] for at in range(0, len(content), 1000)]
    return entry + b"".join(frame(CONTENT, DATA, piece) for piece in pieces) + frame(CONTENT, CLOSE)


def directory(path: str) -> bytes:
    return say(type="entry", path=path, kind="directory")


END = say(type="end")


class Host:
    """The host of one `bridge files` in a work directory, and the stream between them."""

    def __init__(self, work: Path, host_dir: Path, *, listens: bool | None) -> None:
        """`listens` says whether there is a socket where the bridge is told that there is one; `None`: it is told of none."""
        self.work = work
        self.told: list[Message] = []
        options = ["--host-dir", str(host_dir)] + (["--socket", "f-1"] if listens is not None else [])
        listener = socket.socket(socket.AF_UNIX)
        if listens:
            listener.bind(str(host_dir / "f-1"))
            listener.listen()
            listener.settimeout(PATIENCE)
        self.process = subprocess.Popen(
            [sys.executable, "-IS", str(BRIDGE), "files", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=work,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.writer, self.reader = self.stdin, self.stdout
        self.connection: socket.socket | None = None
        self._listener = listener if listens is not None else None

    def _move(self) -> None:
        """Hears where the conversation goes on after the request, and goes there."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        found = self.frame()
        if found is None:
            return  # it did not like the request
        self.told.append(dict(json.loads(found[2])))
        if self.told[0]["type"] == "dialled":
            self.connection = listener.accept()[0]
            self.connection.settimeout(PATIENCE)
            # Unbuffered: the token is all that is taken.
            token = self.connection.recv(32, socket.MSG_WAITALL).decode()
            assert self.told == [{"type": "dialled", "token": token}]
            self.writer = self.connection.makefile("wb")
            self.reader = self.connection.makefile("rb")

    def send(self, *data: bytes) -> None:
        """The request goes first, and by its own way. What a bridge that has ended does not take, it has answered already."""
        try:
            whole = b"".join(data)
            if self._listener is not None and len(whole) >= HEADER.size:
                end = HEADER.size + HEADER.unpack_from(whole)[2]
                self.stdin.write(whole[:end])
                self.stdin.flush()
                if len(whole) < end or whole[1] != DATA or whole[0] != MESSAGES:
                    return
                self._move()
                whole = whole[end:]
            self.writer.write(whole)
            self.writer.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass

    def hang_up(self) -> None:
        """Says that nothing more comes."""
        try:
            if self.connection is not None:
                self.connection.shutdown(socket.SHUT_WR)
            else:
                self.stdin.close()
        except OSError:
            pass  # it has ended

    def frame(self) -> tuple[int, int, bytes] | None:
        try:
            header = self.reader.read(HEADER.size)
        except ConnectionResetError:
            # How a socket ends whose other side has not read all.
            return None
        if not header:
            return None
        stream, kind, length = HEADER.unpack(header)
        return stream, kind, self.reader.read(length)

    def message(self) -> Message:
        found = self.frame()
        assert found is not None and found[:2] == (MESSAGES, DATA), found
        return dict(json.loads(found[2]))

    def answers(self) -> list[Message]:
        """All that it says until its end; what follows a file's entry, and how that ended, is put to it."""
        said: list[Message] = []
        while (found := self.frame()) is not None:
            stream, kind, payload = found
            if stream == MESSAGES:
                said.append(dict(json.loads(payload)))
            elif kind == DATA:
                said[-1]["content"] = said[-1].get("content", b"") + payload
            else:
                said[-1]["closed"] = payload
        return said

    def code(self) -> int:
        return self.process.wait(PATIENCE)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.work)) for path in self.work.rglob("*"))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self._listener is not None:
            self._listener.close()
        for pipe in (self.writer, self.reader, self.stdin, self.stdout, self.stderr, self.connection):
            try:
                if pipe is not None:
                    pipe.close()
            except (BrokenPipeError, ConnectionResetError):
                pass


Start = Callable[..., Host]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def remove(host_dir: Path) -> None:
    (host_dir / "f-1").unlink(missing_ok=True)
    host_dir.rmdir()


@pytest.fixture(params=[None, True], ids=["stdio", "socket"])
def start(request: pytest.FixtureRequest, work: Path) -> Iterator[Start]:
    """Starts hosts whose connection is of each kind."""
    started: list[Host] = []

    def start_one() -> Host:
        # A directory with a short path, as a socket's must be.
        host_dir = Path(f"/tmp/cbf-{os.getpid()}-{len(started)}")
        host_dir.mkdir()
        try:
            started.append(Host(work, host_dir, listens=request.param))
        except BaseException:
            remove(host_dir)
            raise
        directories.append(host_dir)
        return started[-1]

    directories: list[Path] = []
    yield start_one
    for host in started:
        host.close()
    for host_dir in directories:
        remove(host_dir)


def answers(host: Host, *data: bytes) -> list[Message]:
    """What a whole request is answered with."""
    host.send(*data)
    said = host.answers()
    assert host.code() == 0
    return said


def refused(said: list[Message]) -> str:
    assert said and said[-1]["type"] == "refused", said
    return str(said[-1]["code"])


def test_a_file_is_put_looked_at_got_and_removed(start: Start, work: Path) -> None:
    content = os.urandom(2_500_000)
    assert answers(start(), ask("put", "a/b/c"), file("", content, executable=True), END) == [{"type": "done"}]
    assert (work / "a/b/c").read_bytes() == content
    stat, done = answers(start(), ask("stat", "a/b/c"))
    assert (stat["path"], stat["kind"], stat["size"], done) == ("", "file", len(content), {"type": "done"})
    assert stat["mode"] & 0o100 and stat["modified_ns"] == (work / "a/b/c").stat().st_mtime_ns
    got, done = answers(start(), ask("get", "a/b/c"))
    assert (got["content"], got["closed"], done) == (content, b"", {"type": "done"})
    assert answers(start(), ask("remove", "a/b/c")) == [{"type": "done"}]
    assert not (work / "a/b/c").exists()


def test_a_tree_is_put_listed_got_and_removed(start: Start, work: Path) -> None:
    tree = [
        directory(""),
        file("1", b"one"),
        directory("d"),
        file("d/2", b""),
        directory("d/e"),
        file("3", b"x" * 5000),
    ]
    assert answers(start(), ask("put", "t"), *tree, END) == [{"type": "done"}]
    listed = {entry["path"]: entry["kind"] for entry in answers(start(), ask("list", "t", tree=True))[:-1]}
    assert listed == {"1": "file", "3": "file", "d": "directory", "d/2": "file", "d/e": "directory"}
    shallow = {entry["path"] for entry in answers(start(), ask("list", "t"))[:-1]}
    assert shallow == {"1", "3", "d"}
    *got, done = answers(start(), ask("get", "t", tree=True))
    contents = {entry["path"]: entry.get("content", b"") for entry in got if entry["kind"] == "file"}
    assert contents == {"1": b"one", "3": b"x" * 5000, "d/2": b""}
    assert got[0]["path"] == "" and done == {"type": "done"}
    assert answers(start(), ask("remove", "t", tree=True)) == [{"type": "done"}]
    assert not list(work.iterdir())


def test_what_cannot_be_is_refused_by_its_code(start: Start, work: Path) -> None:
    (work / "file").write_bytes(b"x" * 100)
    (work / "full").mkdir()
    (work / "full/inner").touch()
    (work / "link").symlink_to("full")
    os.mkfifo(work / "pipe")
    before = None
    put_file, put_tree = (file("", b"new"), END), (directory(""), END)
    for code, *data in [
        ("missing", ask("get", "nothing")),
        ("missing", ask("stat", "nothing/at/all")),
        ("missing", ask("remove", "nothing")),
        ("directory", ask("get", "full")),
        ("directory", ask("remove", "full")),
        ("directory", ask("remove", "", tree=True)),
        ("directory", ask("put", "full"), *put_file),
        ("directory", ask("put", ""), *put_file),
        ("exists", ask("put", "file"), *put_tree),
        ("exists", ask("put", "full"), *put_tree),
        ("not_directory", ask("get", "file/below")),
        ("not_directory", ask("put", "file/below"), *put_file),
        ("link", ask("get", "link")),
        ("link", ask("get", "link/inner")),
        ("link", ask("put", "link/new"), *put_file),
        ("link", ask("remove", "link/inner")),
        ("other", ask("get", "pipe")),
        ("name", ask("get", "../elsewhere/file")),
        ("name", ask("put", "a//b"), *put_file),
        ("name", ask("put", "n" * 300), *put_file),
        ("name", ask("get", "nul\0")),
        ("name", say(op="stat", path=7)),
        ("large", ask("get", "file", max_bytes=99)),
        ("many", ask("list", "", max_entries=2)),
        ("many", ask("get", "", tree=True, max_entries=2)),
    ]:
        host = start()
        before = before or host.names()
        assert refused(answers(host, *data)) == code, data
        assert host.names() == before, data


@pytest.mark.parametrize(
    "broken",
    [
        frame(MESSAGES, DATA, b"no JSON"),
        frame(MESSAGES, DATA, b"[1]"),
        frame(MESSAGES, DATA, b"[" * 60_000),
        frame(MESSAGES, CLOSE),
        frame(MESSAGES, OPEN, b"shell"),
        frame(9, DATA, b"{}"),
        HEADER.pack(MESSAGES, DATA, (64 << 10) + 1),
        HEADER.pack(MESSAGES, DATA, 0xFFFF_FFFF),
        say(op="format", path="kept"),
        ask("list", "", max_entries="many"),
        ask("put", "new") + END,
        ask("put", "new", temporary=None) + file("", b"x") + END,
        ask("put", "new", temporary="kept") + file("", b"x") + END,
        ask("put", "new", temporary=".cellblock-/../kept") + file("", b"x") + END,
        ask("put", "new") + say(type="entry", path="", kind="file") + END,
        ask("put", "new") + say(type="entry", path="", kind="file") + HEADER.pack(CONTENT, DATA, (1 << 20) + 1),
        ask("put", "new") + file("", b"x") + file("", b"more"),
        ask("put", "new") + directory("") + say(type="more"),
    ],
)
def test_a_host_that_breaks_the_protocol_is_left_and_nothing_changes(start: Start, work: Path, broken: bytes) -> None:
    (work / "kept").write_text("before")
    host = start()
    host.send(broken)
    host.hang_up()
    host.answers()
    assert (host.code(), host.names(), (work / "kept").read_text()) == (76, ["kept"], "before")
    assert host.stderr.read().startswith(b"bridge files: ")


@pytest.mark.parametrize("path", ["..", "../out", "/out", "a/../../out", "", "nowhere/below"])
def test_an_entry_that_leads_elsewhere_undoes_the_upload(start: Start, work: Path, path: str) -> None:
    host = start()
    host.send(ask("put", "tree"), directory(""), file("good", b"x"))
    host.send(file(path, b"hostile"), END)
    host.answers()
    host.code()
    assert host.names() == []
    assert [path.name for path in work.parent.iterdir()] == ["work"]


UPLOAD = [ask("put", "made/for/it"), directory(""), file("1", b"x" * 3000), directory("d"), file("d/2", b"y" * 3000)]


@pytest.mark.parametrize("cut", [0, 3, 50, 100, 170, 1000, 3000, 3400, 3500, 5000, len(b"".join(UPLOAD))])
def test_an_upload_that_ends_in_the_middle_leaves_nothing(start: Start, work: Path, cut: int) -> None:
    (work / "kept").touch()
    host = start()
    host.send(b"".join(UPLOAD)[:cut])
    host.hang_up()
    assert (host.answers(), host.code(), host.names()) == ([], 0, ["kept"])


def test_a_host_that_is_gone_ends_an_answer(start: Start, work: Path) -> None:
    with (work / "large").open("wb") as large:
        large.truncate(1 << 40)
    host = start()
    host.send(ask("get", "large", max_bytes=1 << 41))
    assert host.message()["size"] == 1 << 40
    if host.connection is not None:
        host.writer.close()
        host.reader.close()
        host.connection.close()
    else:
        host.stdin.close()
        host.stdout.close()
    assert host.code() == 0, "a connection that is closed"

    host = start()
    host.send(ask("get", "large", max_bytes=1 << 41))
    assert host.message()["size"] == 1 << 40
    host.hang_up()
    while host.frame() is not None:
        pass
    assert host.code() == 0, "the end of what the host says is enough"


def test_an_upload_refused_on_the_way_says_so_to_a_host_that_still_sends(start: Start, work: Path) -> None:
    (work / "taken").mkdir()
    host = start()
    host.send(ask("put", "taken"), say(type="entry", path="", kind="file"))
    for _ in range(64):
        host.send(frame(CONTENT, DATA, bytes(1 << 20)))
    found = host.frame()
    assert found is not None and json.loads(found[2])["code"] == "directory", "heard although it was not listened to"


def test_a_file_that_gets_shorter_is_no_success(start: Start, work: Path) -> None:
    with (work / "file").open("wb") as sparse:
        sparse.truncate(64 << 20)
    host = start()
    host.send(ask("get", "file"))
    assert host.message()["size"] == 64 << 20
    os.truncate(work / "file", 100)
    last = None
    while (found := host.frame()) is not None:
        last = found
    assert (last, host.code()) == ((CONTENT, CLOSE, b"changed"), 0)


def test_what_is_not_plain_in_a_tree_is_left_out(start: Start, work: Path) -> None:
    (work / "plain").write_text("x")
    (work / "outside").symlink_to("/etc")
    (work / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(work / "pipe")
    os.link(work / "plain", work / "hard")
    for name in (b"latin-\xe9", b"\x1b[2Jescape", b"line\nbreak", b"\xc2\x9bc1"):
        Path(os.fsdecode(os.fsencode(work) + b"/" + name)).touch()
    *got, done = answers(start(), ask("get", "", tree=True))
    assert done == {"type": "done"}
    assert {entry["path"]: entry.get("content") for entry in got if entry.get("kind") == "file"} == {
        "plain": b"x",
        "hard": b"x",
    }
    skipped = {entry["path"]: entry["reason"] for entry in got if entry["type"] == "skipped"}
    assert skipped == {
        "outside": "symlink",
        "passwd": "symlink",
        "pipe": "other",
        "latin-\ufffd": "name",
        "\x1b[2Jescape": "name",
        "line\nbreak": "name",
        "\x9bc1": "name",
    }


def deep(top: Path, levels: int) -> None:
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_tree_too_deep_is_refused_and_can_be_removed(start: Start, work: Path) -> None:
    (work / "top").mkdir()
    deep(work / "top", 2000)
    assert refused(answers(start(), ask("get", "top", tree=True))) == "deep"
    assert refused(answers(start(), ask("list", "top", tree=True))) == "deep"
    assert answers(start(), ask("remove", "top", tree=True)) == [{"type": "done"}]
    assert not list(work.iterdir())


def test_a_socket_that_is_not_there_is_done_without(work: Path, tmp_path: Path) -> None:
    host = Host(work, tmp_path, listens=False)
    assert answers(host, ask("put", "new"), file("", b"x"), END) == [{"type": "done"}]
    assert [said["type"] for said in host.told] == ["not_dialled"]
    assert (work / "new").read_bytes() == b"x"
    host.close()


def test_what_is_small_comes_without_another_connection(start: Start, work: Path) -> None:
    (work / "small").write_bytes(b"x" * 1000)
    (work / "large").write_bytes(bytes(1 << 20))
    for name, told in (("small", "not_dialled"), ("missing", "not_dialled"), ("large", "dialled")):
        host = start()
        assert answers(host, ask("get", name))
        assert [said["type"] for said in host.told] in ([], [told])


def test_a_socket_whose_queue_is_full_is_done_without(work: Path) -> None:
    host_dir = Path(f"/tmp/cbf-{os.getpid()}-full")
    host_dir.mkdir()
    strangers = []
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(host_dir / "f-2"))
            listener.listen(2)
            for _ in range(3):
                strangers.append(socket.socket(socket.AF_UNIX))
                strangers[-1].connect(str(host_dir / "f-2"))
            argv = [sys.executable, "-IS", str(BRIDGE), "files", "--host-dir", str(host_dir), "--socket", "f-2"]
            ended = subprocess.run(
                argv, input=ask("get", "", tree=True), capture_output=True, cwd=work, timeout=PATIENCE
            )
        finally:
            (host_dir / "f-2").unlink(missing_ok=True)
            host_dir.rmdir()
            for stranger in strangers:
                stranger.close()
    assert ended.returncode == 0
    assert b'"not_dialled"' in ended.stdout and ended.stdout.endswith(say(type="done"))


@pytest.mark.parametrize("argv", [["x"], ["--socket"], ["--socket", "../f-1"], ["--what", "x"], ["--socket", "a", "b"]])
def test_wrong_arguments_are_told(argv: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-IS", BRIDGE, "files", *argv], capture_output=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout) == (64, b"")
    assert ended.stderr.startswith(b"usage: bridge files")


def test_a_killed_bridge_leaves_only_its_temporary_name(start: Start, work: Path) -> None:
    host = start()
    host.send(ask("put", "wanted"), say(type="entry", path="", kind="file"), frame(CONTENT, DATA, b"part"))
    wait_until("the upload to begin", host.names)
    host.process.kill()
    host.code()
    assert host.names() == [".cellblock-0"]
