"""Secrets that a command prints are not in its log while it runs, nor when its runner was killed; no line is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drivetrain.base.masking import MASK, SAID
from drivetrain.processes import mounts

# Modules of the supervisor find each other in their own folder.
sys.path.append(os.path.dirname(mounts.SUPERVISOR))
import scribe

TOKEN = "ghp_" + "a1" * 20
KEY = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----"
SECRETS = ("correct-horse", "first-line\nsecond-line\nthird")
TEXT = (
    f"one correct-horse two\r 10 %\r\n{KEY} after\nfirst-line\nsecond-line\nthird and first-line\nsecond-one\n"
    f"https://me:hunter2@host/ {TOKEN}\n-----BEGIN CERTIFICATE-----\nabc\n\udcff\nlast correct-horse"
).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 30, 1000])
def test_a_secret_is_masked_wherever_the_pieces_end(size: int) -> None:
    lines = scribe.MaskedLines(SECRETS)
    found = b"".join(lines.feed(TEXT[at : at + size]) for at in range(0, len(TEXT), size)) + lines.rest()
    assert found.decode("utf-8", "surrogateescape") == (
        f"one {MASK} two\r 10 %\r\n{MASK} after\n{MASK} and first-line\nsecond-one\n"
        f"https://me:{MASK}@host/ {MASK}\n-----BEGIN CERTIFICATE-----\nabc\n\udcff\nlast {MASK}"
    )


def test_a_line_is_given_when_it_has_ended() -> None:
    lines = scribe.MaskedLines(())
    assert lines.feed(b"one\ntw") == b"one\n"
    assert lines.feed(b"o 10 %\r") == b"two 10 %\r"
    assert lines.feed(b"three") == b""
    assert lines.rest() == b"three" and lines.rest() == b""


@pytest.mark.parametrize("begin", ["", "-----BEGIN PRIVATE KEY-----\n", "x\n" + SECRETS[1][:11]])
@pytest.mark.parametrize("piece", ["abcdef", "ab de ", "abc\n", f"{TOKEN} "])
def test_the_held_back_text_is_bounded(begin: str, piece: str) -> None:
    lines = scribe.MaskedLines(SECRETS)
    lines.feed(begin.encode())
    given = (piece * (10_000 // len(piece))).encode()
    held = 0
    for _ in range(30):
        lines.feed(given)
        held = max(held, len(lines._held))
    assert held < 200_000
    assert TOKEN.encode() not in lines.feed(given) + lines.rest()


def test_a_secret_in_an_endless_line_is_masked_though_the_line_is_divided() -> None:
    secret = "s3cret" * 10
    lines = scribe.MaskedLines([secret])
    found = b"".join(lines.feed(f"{number},{secret},".encode()) for number in range(5000)) + lines.rest()
    assert found.decode() == "".join(f"{number},{MASK}," for number in range(5000))


def test_unwritten_bytes_are_counted(tmp_path: Path) -> None:
    read, full = os.pipe()
    os.set_blocking(full, False)
    one = scribe.Scribe((), log=full)
    os.write(full, b"." * 65536)
    os.write(one.write, b"lost\n")
    one.finish()
    assert set(os.read(read, 65536)) == {ord(".")}
    os.write(one.write, b"kept\n")
    one.finish()
    assert os.read(read, 65536) == b"drivetrain: 5 bytes of this log could not be written\nkept\n"
    for descriptor in (read, full, one.read, one.write):
        os.close(descriptor)


PROGRAM = """
import signal, sys
def end(*_):
    print("saved; correct" + "-horse")
    sys.stdout.write("the end")
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("began; correct" + "-horse", flush=True)
while True:
    signal.pause()
"""
RUNNER = """
import sys
from pathlib import Path
from drivetrain.processes import container, mounts
isolation, folder, program = sys.argv[1:]
mounts.isolation = lambda: isolation
host = container.Host("127.0.0.1", Path(folder) / "host")
container.start(container.Job(
    command=("python3", "-I", "-S", "-c", program), environment={}, hosts=(host,), log_folder=Path(folder) / "logs",
    secrets=("correct-horse",),
)).wait()
"""


@pytest.mark.parametrize("isolated", [True, False], ids=["as far as the machine can", "not"])
def test_a_log_is_masked_while_it_grows_and_whole_when_the_runner_was_killed(tmp_path: Path, isolated: bool) -> None:
    isolation = mounts.isolation() if isolated else "none"
    log = tmp_path / "logs" / "127.0.0.1.log"
    with subprocess.Popen([sys.executable, "-c", RUNNER, isolation, str(tmp_path), PROGRAM]) as runner:
        _until(lambda: log.exists() and "began" in log.read_text())
        assert log.read_text() == f"began; {MASK}\n"
        runner.send_signal(signal.SIGKILL)
    _until((tmp_path / "logs" / "127.0.0.1.ended").exists)
    assert log.read_text() == f"began; {MASK}\nsaved; {MASK}\nthe end\n{SAID}"


def _until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


PASSPHRASE = "correct horse battery staple"
ONE_LINE_KEY = KEY.replace("\n", "\\n").replace("abc", "MIIE" * 30)


@pytest.mark.parametrize("secret", [PASSPHRASE, ONE_LINE_KEY], ids=["passphrase", "key"])
def test_a_secret_that_lies_across_the_cut_of_a_long_line_is_masked(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scribe, "_LONGEST", 8 * 1024)
    data = secret.encode()
    for split in range(1, len(data)):
        lines = scribe.MaskedLines([PASSPHRASE])
        found = lines.feed(b"x" * (scribe._LONGEST - split) + data[:split])
        found += lines.feed(data[split:] + b" after\n") + lines.rest()
        assert found.endswith(f"{MASK} after\n".encode()), split
        assert b"battery" not in found and b"MIIE" not in found, split


def test_masking_a_key_keeps_other_lines() -> None:
    lines = scribe.MaskedLines(())
    told = "".join(f"important line {number}\n" for number in range(30))
    found = lines.feed(f"error: expected -----BEGIN PRIVATE KEY----- in the file\n{told}".encode()) + lines.rest()
    assert found.decode() == f"error: expected {MASK} in the file\n{told}"


def test_an_open_key_is_masked_whatever_else_begins_or_ends_in_it() -> None:
    for other in ("-----END of part-----", "-----BEGIN CERTIFICATE-----"):
        lines = scribe.MaskedLines(())
        text = KEY.replace("def", f"{other}\ndef")
        found = b"".join(lines.feed(f"{line}\n".encode()) for line in text.split("\n")) + lines.rest()
        assert found == f"{MASK}\n".encode()


def test_a_secret_of_several_lines_is_masked_with_the_line_ends_of_a_terminal() -> None:
    lines = scribe.MaskedLines(SECRETS)
    assert lines.feed(SECRETS[1].replace("\n", "\r\n").encode() + b"\r\n") + lines.rest() == f"{MASK}\r\n".encode()
