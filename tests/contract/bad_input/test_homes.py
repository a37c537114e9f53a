"""Homes and ledgers that cannot be used, and those that only look odd."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.bad_input.place import COMMAND, Place, definition, processing
from tests.contract.test_bad_input import PIPELINE

NOTHING = definition(processing("step", "pass"))
READING = (["runs", "list"], ["runs", "show"], ["runs", "resume"], ["runs", "logs"], ["models", "list"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place in which something was run."""
    place = Place(tmp_path_factory.mktemp("finished") / "work")
    assert place.run(NOTHING).code == 0
    return place


@pytest.fixture
def place(finished: Place, tmp_path: Path) -> Place:
    """A copy of it."""
    shutil.copytree(finished.folder, tmp_path / "work", ignore=shutil.ignore_patterns("tmp"))
    return Place(tmp_path / "work")


def rubbish(ledger: Path) -> None:
    ledger.write_bytes(b"this is no database" * 500)


def cut(ledger: Path) -> None:
    ledger.write_bytes(ledger.read_bytes()[: ledger.stat().st_size // 2])


def zeros(ledger: Path) -> None:
    content = ledger.read_bytes()
    ledger.write_bytes(content[:4096] + bytes(len(content) - 4096))


def folder(ledger: Path) -> None:
    ledger.unlink()
    ledger.mkdir()


@pytest.mark.slow_cases("rubbish")
@pytest.mark.parametrize("spoil", [rubbish, cut, zeros, folder])
def test_a_file_that_is_no_ledger_is_refused(place: Place, spoil: Callable[[Path], None]) -> None:
    ledger = place.home / "ledger.db"
    spoil(ledger)
    before = ledger.read_bytes() if ledger.is_file() else b""
    commands = READING if spoil is rubbish else READING[1:2]
    for command in (["run", "-d", "definition.json"], *commands):
        ran = place.drivetrain(*command)
        place.error_of(ran, str(ledger))
        assert "Move it aside" in ran.err or "Restore a copy" in ran.err or "no file" in ran.err
    assert before == (ledger.read_bytes() if ledger.is_file() else b"")


def test_a_ledger_of_a_newer_version(place: Place) -> None:
    with closing(sqlite3.connect(place.home / "ledger.db")) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    for command in (["run", "-d", "definition.json"], ["runs", "show"]):
        place.error_of(place.drivetrain(*command), "newer Drivetrain", "Upgrade it")


@pytest.mark.slow
def test_a_ledger_that_another_program_has_locked(place: Place) -> None:
    with closing(sqlite3.connect(place.home / "ledger.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert place.shown() == ["Succeeded"]  # readers need no lock
        place.error_of(
            place.drivetrain("run", "-d", "definition.json"), "database is locked", "End the program that has locked it"
        )
        holder.execute("ROLLBACK")
    assert place.drivetrain("run", "-d", "definition.json").code == 0


def test_a_home_that_is_a_file(place: Place) -> None:
    shutil.rmtree(place.home)
    place.home.write_text("x")
    for command in (["run", "-d", "definition.json"], *READING):
        place.error_of(place.drivetrain(*command), "is a file", "--home")


def test_a_home_that_cannot_be_created(place: Place) -> None:
    ran = place.drivetrain("run", "-d", "definition.json", "--home", "/proc/nowhere")
    place.error_of(ran, "/proc/nowhere cannot be used", "Give another folder by --home")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with space", "nön-ascii 😀", "quo'te\"s;$(touch owned)", "-new\nline %41?#"])
def test_a_home_with_an_odd_name(place: Place, name: str) -> None:
    home = place.folder / "homes" / name
    arguments = ["run", place.write("example.py", PIPELINE), f"--home={home}"]
    ran = place.drivetrain(*arguments)
    assert ran.code == 0, ran
    assert (home / "ledger.db").exists()
    shown = place.drivetrain("runs", "show", f"--home={home}")
    assert shown.code == 0 and "succeeded" in shown.out
    assert not list(place.folder.rglob("owned*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with späce 😀", "quo'te\"s;$(touch owned)"])
def test_a_pipeline_in_a_folder_with_an_odd_name(place: Place, name: str) -> None:
    file = place.write(f"{name}/example.py", PIPELINE)
    ran = place.drivetrain("run", file)
    assert ran.code == 0, ran
    assert place.drivetrain("compile", file).code == 0
    assert not list(place.folder.rglob("owned*"))


def can_mount() -> bool:
    attempt = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(attempt, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="this machine does not let us mount")


def in_mounts(place: Place, prepare: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`drivetrain ...` in a mount namespace of its own, after `prepare` (sh) has mounted something there."""
    script = f'{prepare} && exec "$0" "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, str(COMMAND), *arguments]
    environment = {**place.environment, "PATH": os.environ["PATH"]}
    return subprocess.run(command, cwd=place.folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@needs_mounts
def test_a_home_that_is_read_only(place: Place) -> None:
    read_only = 'mount --bind "$DRIVETRAIN_HOME" "$DRIVETRAIN_HOME" && mount -o remount,ro,bind "$DRIVETRAIN_HOME"'
    ran = in_mounts(place, read_only, "run", "-d", "definition.json", "--fresh")
    assert ran.returncode == 2, ran
    assert ran.stderr.startswith("error: ") and len(ran.stderr.splitlines()) <= 3
    assert str(place.home) in ran.stderr
    assert list(place.executions().values()) == ["Succeeded"]
    for command in (["runs", "list"], ["runs", "show"], ["runs", "show", "--json"]):
        ran = in_mounts(place, read_only, *command)
        assert ran.returncode == 0, (command, ran)
    empty = 'rm -rf "$DRIVETRAIN_HOME" && mkdir "$DRIVETRAIN_HOME" && ' + read_only
    ran = in_mounts(place, empty, "run", "-d", "definition.json")
    assert ran.returncode == 2 and "Give another folder by --home" in ran.stderr, ran


@pytest.mark.slow
@needs_mounts
def test_a_disk_that_fills(place: Place) -> None:
    """One error, and a ledger that is whole; with room again the same command goes on and loses nothing."""
    shutil.rmtree(place.home)
    place.home.mkdir()
    fill = "open('/opt/ml/processing/output/data/a', 'wb').write(bytes(3_000_000))"
    step = processing("fill", fill, outputs={"data": "s3://bucket/data"}, DependsOn=["small"])
    place.write("definition.json", json.dumps(definition(processing("small", "pass"), step)))
    prepare = (
        'mount -t tmpfs -o size=2m disk "$DRIVETRAIN_HOME" && { "$0" run -d definition.json; '
        'mount -o remount,size=64m "$DRIVETRAIN_HOME"; echo "room" >&2; } && cp -a "$DRIVETRAIN_HOME" full'
    )
    ran = in_mounts(place, prepare, "run", "-d", "definition.json")
    before, _, after = ran.stderr.partition("room\n")
    assert "No space left" in before + ran.stdout or "disk is full" in before, ran
    assert len(before.splitlines()) <= 3 and "Traceback" not in before
    assert ran.returncode == 0 and after == "", ran
    place.home = place.folder / "full"
    assert place.step("small")[0] == "Succeeded"


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_is_closed(place: Place, stream: str) -> None:
    """A scheduler may start programs so: what is said must not end what is done."""
    ran = place.drivetrain(
        "run", "-d", "definition.json", "--fresh", before=lambda: os.close(1 if stream == "stdout" else 2)
    )
    assert ran.code == 0, ran
    assert list(place.executions().values()) == ["Succeeded", "Succeeded"]


def test_a_terminal_without_unicode(place: Place) -> None:
    ran = place.drivetrain("runs", "show", PYTHONIOENCODING="ascii")
    assert ran.code == 0 and "? definition succeeded" in ran.out
