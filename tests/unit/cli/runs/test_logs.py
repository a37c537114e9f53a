from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.cli.runs.logs import LogReader, print_logs
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter


class Reading:
    def __init__(self, folder: Path, num_lines: int | None = None) -> None:
        self.written = b""
        self.reader = LogReader(folder, num_lines, self.write)

    def write(self, host: str, line: bytes) -> None:
        self.written += line + b"\n"

    def copy(self) -> str:
        """What one more look finds."""
        before = len(self.written)
        self.reader.copy()
        return self.written[before:].decode()


def test_a_log_that_grows_is_copied_line_by_line(tmp_path: Path) -> None:
    log, reading = tmp_path / "127.0.0.1.log", Reading(tmp_path)
    assert reading.copy() == ""
    log.write_text("one\ntw")
    assert reading.copy() == "one\n"
    with log.open("a") as file:
        file.write("o\nthree")
    assert reading.copy() == "two\n"
    with reading.reader:
        pass
    assert reading.written == b"one\ntwo\nthree\n"


def test_lines_of_several_hosts_name_their_host(drivetrain) -> None:
    drivetrain.run()
    logged(drivetrain, "evaluate", "a\n")
    logged(drivetrain, "evaluate", "b\n", host="127.0.0.2")
    at_home = ("--home", drivetrain.home)
    assert "127.0.0.2: b\n" in drivetrain("runs", "logs", "latest", "evaluate", *at_home)
    lines = drivetrain("runs", "logs", "latest", "evaluate", "--json", *at_home).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"host": "127.0.0.1", "text": "a"},
        {"host": "127.0.0.2", "text": "b"},
    ]


@pytest.mark.parametrize(("num_lines", "shown"), [(2, "8\n9\n"), (0, ""), (99, "".join(f"{n}\n" for n in range(10)))])
def test_the_last_lines(tmp_path: Path, num_lines: int, shown: str) -> None:
    (tmp_path / "a.log").write_text("".join(f"{n}\n" for n in range(10)))
    assert Reading(tmp_path, num_lines).copy() == shown


def logged(drivetrain, step: str, text: str, attempt: int = 1, host: str = "127.0.0.1") -> None:
    (execution,) = [path.name for path in (drivetrain.home / "runs").iterdir()]
    folder = drivetrain.home / "runs" / execution / step / f"attempt-{attempt}" / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{host}.log").write_text(text)


def test_the_log_of_a_step(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    drivetrain.run()
    logged(drivetrain, "evaluate", "reading\ndone\n")
    at_home = ("--home", drivetrain.home)
    assert drivetrain("runs", "logs", "latest", "evaluate", *at_home) == "reading\ndone\n"
    assert drivetrain("runs", "logs", "latest", "evaluate", "-n", "1", *at_home) == "done\n"
    # A run that has ended has nothing to be followed.
    assert drivetrain("runs", "logs", "latest", "evaluate", "-f", *at_home) == "reading\ndone\n"
    assert drivetrain("runs", "logs", *at_home) == "reading\ndone\n"


def test_a_fully_cached_run_prints_the_log_of_its_last_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path)
    home.create()
    writer = LedgerWriter(home)
    steps = [(name, "Processing", name) for name in ("prepare", "evaluate", "gate")]
    for id in ("e-1", "e-2"):
        writer.begin(id, "p", definition_hash="d", request_hash="r", parameters={}, steps=steps)
    for name in ("prepare", "evaluate"):
        writer.start_step("e-1", name, arguments={})
        writer.retry_step("e-1", name)
        home.logs("e-1", name, 2).mkdir(parents=True)
        (home.logs("e-1", name, 2) / "127.0.0.1.log").write_text(f"{name} done\n")
        writer.settle_step("e-2", name, "Cached", cache_of="e-1")
    writer.settle_step("e-2", "gate", "Succeeded")
    writer.finish("e-2", "Succeeded", None)
    with Ledger(home) as ledger:
        print_logs(ledger, "latest", None, attempt=None, follow=False, num_lines=None)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("evaluate done\n", "(cached: the log of e-1)\n")


def test_steps_without_a_log(drivetrain) -> None:
    drivetrain.run()
    at_home = ("--home", drivetrain.home)
    assert "it starts no program" in drivetrain.error("runs", "logs", "latest", "gate", *at_home)
    assert "it has not run" in drivetrain.error("runs", "logs", "latest", "stop", *at_home)
    assert "Did you mean 'prepare'?" in drivetrain.error("runs", "logs", "latest", "prepar", *at_home)
    assert "no attempt 7" in drivetrain.error("runs", "logs", "latest", "evaluate", "--attempt", "7", *at_home)


@pytest.mark.parametrize("named", ["train", None])
def test_a_step_at_work_is_followed_through_its_retry_to_its_end(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between two looks something happens: more lines, a second attempt, the end."""
    home = Home(tmp_path)
    home.create()
    writer = LedgerWriter(home)
    writer.begin("e-1", "p", definition_hash="d", request_hash="r", parameters={}, steps=[("train", "Training", "t")])

    def log(attempt: int, text: str) -> None:
        folder = home.logs("e-1", "train", attempt)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "127.0.0.1.log").open("a") as file:
            file.write(text)

    def end_first() -> None:
        log(1, "two\n")
        writer.end_attempt("e-1", "train", 1, "Failed", "broke")
        writer.retry_step("e-1", "train")
        log(2, "again\n")

    def end_second() -> None:
        log(2, "done")
        writer.finish_step("e-1", "train", "Succeeded", number=2)

    happenings: list[Callable[[], object]] = [
        lambda: writer.start_step("e-1", "train", arguments={}),
        lambda: log(1, "one\n"),
        end_first,
        end_second,
    ]
    monkeypatch.setattr("time.sleep", lambda _: happenings.pop(0)())
    with home.lock("e-1"), Ledger(home) as ledger:
        print_logs(ledger, "e-1", named, attempt=None, follow=True, num_lines=None)
    assert capsys.readouterr().out == "one\ntwo\nagain\ndone\n"
    assert happenings == []
