import hashlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.backends import local
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.package_mapping import record_of, request_of
from drivetrain.registry.record import ModelRecord

CONTENT = hashlib.sha256(b"model").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


def register(path: Path, content: str = CONTENT) -> tuple[int, bool]:
    return LocalRegistry(path).register(
        "digits", content, record_of({"a": 1}), metrics={"accuracy": 0.9}, execution="run-1"
    )


def killed_after(seconds: float, work: Callable[[], object]) -> bool:
    """Do the work in a process of its own and kill that `seconds` after it began; False when it ended before."""
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(begin, b"x")
            work()
        finally:
            os._exit(0)
    os.close(begin)
    os.read(begun, 1)
    os.close(begun)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:  # a sleep is coarser than a registration is long
        pass
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_registration_killed_at_any_instant_and_repeated_gives_one_version(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    register(tmp_path / "warm.db")  # imports what the children then have
    times: list[float] = []
    for trial in range(5):
        started = time.perf_counter()
        register(tmp_path / f"timed-{trial}.db")
        times.append(time.perf_counter() - started)
    longest = 1.5 * min(times)  # the least, or one slow moment of the machine would move all kills behind the end
    killed = made_before = 0
    for trial in range(50):
        path = tmp_path / f"{trial}.db"
        killed += killed_after(chance.uniform(0, longest), lambda path=path: register(path))
        version, created = register(path)
        made_before += not created
        registry = LocalRegistry(path)
        assert version == 1
        assert [(v.version, v.content_hash, v.metrics) for v in registry.versions("digits")] == [
            (1, CONTENT, {"accuracy": 0.9})
        ]
        assert [(event.version, event.previous_status) for event in registry.events()] == [(1, None)]
        assert [group.num_versions for group in registry.groups()] == [1]
        with sqlite3.connect(path) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert killed >= 10 and made_before < 50, "the kills came too late to say anything"


@pytest.mark.slow
def test_versions_have_no_gaps_after_any_kill(tmp_path: Path) -> None:
    chance = random.Random(3)
    path = tmp_path / "ledger.db"
    contents = [hashlib.sha256(bytes([n])).hexdigest() for n in range(25)]
    for content in contents:
        killed_after(chance.uniform(0, 0.006), lambda content=content: register(path, content))
    for content in contents:
        register(path, content)
    versions = LocalRegistry(path).versions("digits")
    assert [version.version for version in versions] == list(range(25, 0, -1))
    assert {version.content_hash for version in versions} == set(contents)
    assert len(LocalRegistry(path).events()) == 25


def test_a_registration_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stopped before the event was written")

    path = tmp_path / "ledger.db"
    register(path)
    monkeypatch.setattr(local, "_record", fail)
    with pytest.raises(RuntimeError):
        register(path, OTHER)
    with pytest.raises(RuntimeError):
        LocalRegistry(path).set_status("digits", 1, "Approved")
    monkeypatch.undo()
    assert [(v.version, v.status) for v in LocalRegistry(path).versions("digits")] == [(1, "PendingManualApproval")]
    assert register(path, OTHER) == (2, True)


def test_the_ledger_may_keep_its_own_tables_and_journal_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE executions (id TEXT)")
        database.execute("INSERT INTO executions VALUES ('run-1')")
    assert LocalRegistry(path).groups() == []
    assert register(path) == (1, True)
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("SELECT id FROM executions").fetchall() == [("run-1",)]


def test_foreign_status_words_are_kept(tmp_path: Path) -> None:
    package = {"Deep": {"list": [1, 2.5, None, True, "é"]}}
    registry = LocalRegistry(tmp_path / "ledger.db")
    registry.register("digits", CONTENT, record_of(package))
    assert request_of(registry.version("digits").record) == package


REGISTER_WHEN_TOLD = """
import sys
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.record import ModelRecord
print("ready", flush=True)
sys.stdin.readline()
for content in sys.argv[2:]:
    print(*LocalRegistry(sys.argv[1]).register("digits", content, ModelRecord()), flush=True)
"""


def test_concurrent_processes_create_each_version_once_without_gaps(tmp_path: Path) -> None:
    contents = [hashlib.sha256(bytes([n])).hexdigest() for n in range(5)]
    command = [sys.executable, "-c", REGISTER_WHEN_TOLD, str(tmp_path / "ledger.db"), *contents]
    programs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for program in programs:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    answers = [program.communicate()[0].splitlines() for program in programs]
    for n, given in enumerate(zip(*answers, strict=True), start=1):
        assert sorted(given) == [f"{n} False", f"{n} False", f"{n} True"]


def test_region_and_account_of_the_arn(tmp_path: Path) -> None:
    registry = LocalRegistry(tmp_path / "ledger.db", region="eu-central-1")
    registry.register("digits", CONTENT, ModelRecord())
    assert registry.version("digits").arn == "arn:aws:sagemaker:eu-central-1:000000000000:model-package/digits/1"


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("not a database, but long enough to be looked at\n" * 100)
    for call in (lambda: register(path), lambda: LocalRegistry(path).groups()):
        assert refused(call).startswith(f"{path} is damaged or no SQLite file")


def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    register(path)
    data = bytearray(path.read_bytes())
    data[200:] = b"\x5a" * (len(data) - 200)
    path.write_bytes(data)
    assert refused(lambda: register(path, OTHER)).startswith(f"{path} is damaged or no SQLite file")


def test_tables_of_someone_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        for table in ("model_groups", "model_versions", "model_events"):
            database.execute(f"CREATE TABLE {table} (x TEXT)")
    for call in (lambda: register(path), lambda: LocalRegistry(path).versions("digits")):
        assert "holds tables that are not this registry's" in refused(call)


def test_an_impossible_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot be created" in refused(lambda: register(tmp_path / "file" / "ledger.db"))
    assert "is no file" in refused(lambda: register(tmp_path))
    assert "is no file" in refused(lambda: LocalRegistry(tmp_path).groups())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    register(path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert "cannot be opened for reading and writing" in refused(lambda: register(path, OTHER))
        assert LocalRegistry(path).version("digits").version == 1
    finally:
        tmp_path.chmod(0o755)


def test_a_database_that_another_process_keeps_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BUSY_SECONDS", 0.05)
    path = tmp_path / "ledger.db"
    register(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "has been locked by another process" in refused(lambda: register(path, OTHER))
    other.execute("ROLLBACK")
    other.close()
    assert register(path, OTHER) == (2, True)


FILL_THE_DISK = """
import resource, sys
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.record import ModelRecord
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    LocalRegistry(sys.argv[1]).register("digits", sys.argv[3], ModelRecord(others={"large": "x" * 200_000}))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    register(path)
    limit = str(path.stat().st_size + 20_000)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    said = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(path), limit, OTHER], capture_output=True, text=True, check=True
    ).stdout
    assert said.startswith("RegistryError ") and str(path) in said
    assert [version.version for version in LocalRegistry(path).versions("digits")] == [1]
    assert register(path, OTHER) == (2, True)
