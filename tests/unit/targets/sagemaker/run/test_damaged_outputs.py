"""What a finished step wrote is looked at before anything relies on it: a step whose output is damaged runs again."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.execution import cache
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, output_of

MAKE = "open('/opt/ml/processing/output/out/a', 'w').write('content')"
COPY = """
import pathlib
content = pathlib.Path('/opt/ml/processing/input/data/a').read_text()
pathlib.Path('/opt/ml/processing/output/out/b').write_text(content)
"""
FAIL = "import os, pathlib, sys; sys.exit(not pathlib.Path(os.environ['FLAG']).exists())"


def steps(runs: LocalRuns, flag: Path) -> list[dict[str, Any]]:
    return [
        runs.processing("one", MAKE, outputs=["out"], cache="1d"),
        runs.processing("two", COPY, inputs={"data": output_of("one", "out")}, outputs=["out"]),
        runs.processing("gate", FAIL, environment={"FLAG": str(flag)}, DependsOn=["two"]),
        runs.processing("three", COPY.replace("/a'", "/b'"), inputs={"data": output_of("two", "out")}, outputs=["out"],
                        DependsOn=["gate"]),
        runs.processing("apart", MAKE, outputs=["out"]),
    ]  # fmt: skip


def written(runs: LocalRuns, execution: str, step: str, name: str) -> Path:
    return runs.store.path(f"{BUCKET}/runs/{execution}/{step}/out/{name}")


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:3])


def write_as_long(file: Path) -> None:
    """Other bytes of the same size: seen by the hash alone."""
    file.write_text("CONTENT")


def write_as_long_and_as_old(file: Path) -> None:
    """As a restored backup, and bit rot, leave it."""
    before = file.stat()
    file.write_text("CONTENT")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def go_on(runs: LocalRuns) -> dict[str, tuple[str, ...]]:
    """The steps that ran, and why."""
    runs.events = []
    summary = Runner(runs.home, runs.events.append).resume("latest")
    assert summary.status == "Succeeded", summary.reason
    return {event.step: event.why for event in runs.of(StepStarted)}


@pytest.mark.slow_cases("write_as_long", "unlink", "truncate")
@pytest.mark.parametrize("damage", [truncate, write_as_long, write_as_long_and_as_old, os.unlink])
def test_a_step_whose_output_is_damaged_runs_again_and_what_needs_it(
    damage: Any, runs: LocalRuns, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    execution = runs.start(steps(runs, flag)).execution
    damage(written(runs, execution, "one", "a"))
    flag.touch()
    ran = go_on(runs)
    assert list(ran) == ["one", "two", "gate", "three"]
    uri = f"{BUCKET}/runs/{execution}/one/out/a"
    assert ran["one"] == (f"{uri}, which {execution} wrote, is gone or changed",) and ran["two"] == ("it has no cache",)
    assert written(runs, execution, "three", "b").read_text() == "content"
    with Ledger(runs.home) as ledger:
        assert {row.name: row.status for row in ledger.steps(execution)} == dict.fromkeys(ran, "Succeeded") | {
            "apart": "Succeeded"
        }
        (row,) = (row for row in ledger.steps(execution) if row.name == "one")
        assert row.why == ran["one"]


def test_undamaged_steps_stay_done(runs: LocalRuns, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    execution = runs.start(steps(runs, flag)).execution
    for file in (written(runs, execution, "one", "a"), written(runs, execution, "apart", "a")):
        os.utime(file)  # copied back, say
    flag.touch()
    assert list(go_on(runs)) == ["gate", "three"]


def test_an_object_of_an_old_ledger_is_read_once(
    runs: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    runs.start(steps(runs, flag))
    with closing(sqlite3.connect(runs.home.ledger)) as ledger, ledger:
        ledger.execute("UPDATE objects SET ctime_ns = NULL")
    read: list[str] = []
    hashed = cache.sha256_of
    monkeypatch.setattr(cache, "sha256_of", lambda path: read.append(path.name) or hashed(path))
    for times in (1, 1):
        runs.start(steps(runs, flag))
        assert runs.statuses()["one"] == "Cached" and read.count("a") == times


def test_cached_outputs_are_checked_too(runs: LocalRuns, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    first = runs.start(steps(runs, flag)).execution
    flag.unlink()
    second = runs.start(steps(runs, flag)).execution
    assert runs.statuses()["one"] == "Cached"
    truncate(written(runs, first, "one", "a"))
    flag.touch()
    assert list(go_on(runs)) == ["one", "two", "gate", "three"]
    assert written(runs, second, "three", "b").read_text() == "content"


def test_two_steps_may_write_the_same(runs: LocalRuns, tmp_path: Path) -> None:
    """What a later step has put in its place is no damage of an earlier one."""
    flag = tmp_path / "flag"
    one, two, gate, three, _ = steps(runs, flag)
    place = one["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
    over = runs.processing("over", MAKE.replace("content", "another"), outputs=["out"], DependsOn=["two"])
    over["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = place
    gate["DependsOn"] = ["over"]
    execution = runs.start([one, two, over, gate, three]).execution
    assert written(runs, execution, "one", "a").read_text() == "another"
    flag.touch()
    assert list(go_on(runs)) == ["gate", "three"]


def test_a_selection_does_not_rest_on_damaged_outputs(runs: LocalRuns, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    execution = runs.start(steps(runs, flag)).execution
    selected: dict[str, Any] = {"selected": ("three",), "selected_from": execution}
    truncate(written(runs, execution, "one", "a"))  # nothing that is selected reads it
    assert runs.start(steps(runs, flag), **selected).status == "Succeeded"
    truncate(written(runs, execution, "two", "b"))
    with pytest.raises(UserError, match=r"--select three: it needs two, and s3://.*/two/out/b, which .* is gone or ch"):
        runs.start(steps(runs, flag), **selected)


def test_the_disk_has_what_the_ledger_names(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[tuple[int, int]] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        about = os.fstat(descriptor)
        synced.add((about.st_dev, about.st_ino))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    execution = runs.start([runs.processing("one", MAKE, outputs=["out"])]).execution
    file = written(runs, execution, "one", "a")
    for path in (file, *file.parents[: len(file.relative_to(runs.home.objects).parents) - 1]):
        about = path.stat()
        assert (about.st_dev, about.st_ino) in synced, path
