"""`bridge script` as a plain process: what its host may do, and what becomes of the script then."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import BRIDGE, HEADER, alive, wait_until

DATA, OPEN, CLOSE, CREDIT = range(4)


def frame(stream: int, kind: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(stream, kind, len(payload)) + payload


def request(text: str | None, *fields: tuple[str, str]) -> bytes:
    """A whole request, for `sh` if there is a script. Of a field that is there twice the first counts."""
    given = [*fields, ("timeout", "20"), ("grace", "0.3")]
    if text is not None:
        given += [("run", "sh"), ("suffix", ".sh")]
    encoded = b"".join(f"{name}\0{value}\0".encode() for name, value in given)
    script = frame(4, DATA, text.encode()) if text is not None else b""
    return frame(0, DATA, encoded) + script + frame(4, CLOSE)


class Script:
    """One `bridge script`, and the host's ends of its pipes."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        argv = [sys.executable, "-IS", str(BRIDGE), "script", self.id]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def send(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def frame(self) -> tuple[int, int, bytes] | None:
        """The next frame; `None` at the end."""
        header = self.stdout.read(HEADER.size)
        if not header:
            return None
        stream, kind, length = HEADER.unpack(header)
        return stream, kind, self.stdout.read(length)

    def line(self) -> str:
        """What the script prints next, after the word that it has started."""
        while (found := self.frame()) is not None:
            if found[0] == 1:
                return found[2].decode().strip()
        raise AssertionError("it printed nothing")

    def answers(self) -> list[dict[str, str]]:
        """All that is said about the script until the end of the stream."""
        said = []
        while (found := self.frame()) is not None:
            if found[0] == 0:
                words = found[2].decode().split("\0")
                said.append(dict(zip(words[::2], words[1::2], strict=False)))
        return said

    def files(self) -> list[Path]:
        return list(Path("/tmp").glob(f"cellblock-{self.id}*"))


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    yield made
    made.process.kill()
    made.process.wait()
    for pipe in (made.stdin, made.stdout, made.stderr):
        try:
            pipe.close()
        except BrokenPipeError:
            pass
    for file in made.files():
        file.unlink()


ENDLESS = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 9; done' & while :; do sleep 9; done"


def test_a_host_that_is_gone_ends_all_that_the_script_started(script: Script) -> None:
    script.send(request(ENDLESS))
    grandchild = int(script.line())
    script.stdin.close()
    script.stdout.close()
    script.process.wait(20)
    assert not alive(grandchild)
    assert not script.files()


def test_a_host_that_wants_an_end_is_told_of_it(script: Script) -> None:
    script.send(request(ENDLESS))
    grandchild = int(script.line())
    script.stdin.close()
    (end,) = script.answers()
    assert (end["type"], end["reason"], end["clean"]) == ("end", "interrupt", "1")
    assert not alive(grandchild)


def test_a_host_that_goes_before_the_request_is_whole_starts_nothing(script: Script) -> None:
    marker = Path(f"/tmp/{script.id}")
    script.send(request(f"touch {marker}")[:-1])
    script.stdin.close()
    assert (script.answers(), script.process.wait(20), marker.exists()) == ([], 0, False)
    assert not script.files()


@pytest.mark.parametrize(
    "broken",
    [
        frame(1, DATA, b"x"),
        frame(0, CREDIT, b"\0\0\0\1"),
        frame(9, OPEN),
        HEADER.pack(4, DATA, (1 << 20) + 1),
        HEADER.pack(4, 77, 0),
    ],
)
def test_a_host_that_breaks_the_protocol_is_left(script: Script, broken: bytes) -> None:
    script.send(broken)
    assert (script.answers(), script.process.wait(20)) == ([], 76)


def test_a_host_that_breaks_the_protocol_while_it_runs_leaves_nothing_behind(script: Script) -> None:
    script.send(request(ENDLESS))
    grandchild = int(script.line())
    script.send(frame(1, DATA, b"x"))
    script.process.wait(20)
    wait_until("the end of the script", lambda: not alive(grandchild))
    assert not script.files()


def test_stdin_past_its_credit_breaks_the_protocol(script: Script) -> None:
    script.send(request("sleep 9", ("stdin", "")))
    piece = frame(3, DATA, bytes(1 << 20))
    try:
        script.send(piece + piece)
    except BrokenPipeError:
        pass
    assert script.process.wait(20) == 76


def test_signals_from_the_script_do_not_end_what_it_runs_under(script: Script) -> None:
    script.send(request("for s in TERM INT HUP QUIT PIPE; do kill -$s $PPID; done; exit 5"))
    *_, end = script.answers()
    assert (end["type"], end["exit"]) == ("end", "5")


def test_a_host_that_does_not_read_does_not_stop_the_clock(script: Script) -> None:
    script.send(request("echo $$; exec yes", ("timeout", "0.5")))
    pid = int(script.line().split()[0])
    wait_until("the end of the script", lambda: not alive(pid))
    *_, end = script.answers()
    assert end["reason"] == "timeout"


def test_a_name_in_the_path_that_is_a_directory_or_not_executable_is_passed_over(
    script: Script, tmp_path: Path
) -> None:
    (tmp_path / "one" / "sh").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "sh").write_text("")
    path = f"{tmp_path}/one:{tmp_path}/two:/nonexistent:/bin"
    script.send(request("echo found", ("env", f"PATH={path}")))
    assert script.line() == "found"


def test_a_stopped_script_is_ended_too(script: Script) -> None:
    script.send(request("kill -STOP $$", ("timeout", "0.3")))
    *_, end = script.answers()
    assert (end["reason"], end["clean"]) == ("timeout", "1")


def test_wrong_arguments() -> None:
    argv = [sys.executable, "-IS", str(BRIDGE), "script"]
    for args in ([], ["a b"], ["../x"], ["a", "b"]):
        assert subprocess.run(argv + args, stdin=subprocess.DEVNULL, capture_output=True).returncode == 64
