"""A run with --fresh: every step runs, is told so by one token, and nothing of earlier runs is taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.base.errors import UserError
from drivetrain.run_store.events import StepFinished, StepNoted, StepStarted
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.options import Options, Request
from tests.fixtures.local_runs import LocalRuns

FILE = """
import os
from pathlib import Path

from drivetrain import Pipeline, Settings, step
from drivetrain.components import Input, Output, component


class Two(Settings):
    stop: str = ""


@component
def make(raw: Input, out: Output) -> None:
    (out / "rows").write_text((raw / "rows.csv").read_text())
    (out / "token").write_text(os.environ["DRIVETRAIN_FRESH"])


@component
def use(data: Input, out: Output, stop: str = "") -> None:
    if stop and Path(stop).exists():
        raise ValueError("stopped")
    (out / "rows").write_text((data / "rows").read_text())
    (out / "token").write_text(os.environ["DRIVETRAIN_FRESH"])


def two(settings: Two) -> Pipeline:
    data = step(make, raw="rows.csv")
    return Pipeline(name="two", steps=[data, step(use, data=data["out"], stop=settings.stop)])
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "two.py").write_text(FILE)
    (folder / "rows.csv").write_text("1\n2\n")
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def first(place: Path) -> dt.Run:
    return dt.run("two.py", quiet=True)


def whys(run: dt.Run) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {step.name: (step.status, step.why) for step in run.steps.values()}


def tokens(run: dt.Run) -> set[str]:
    return {(step.outputs["out"] / "token").read_text() for step in run.steps.values()}


def test_every_step_of_a_fresh_run_runs_and_says_so(place: Path, first: dt.Run) -> None:
    assert set(whys(first).values()) == {("Succeeded", ("no earlier result",))} and tokens(first) == {"no"}
    fresh = dt.run("two.py", fresh=True, quiet=True)
    assert set(whys(fresh).values()) == {("Succeeded", ("--fresh",))}
    assert tokens(fresh) == {fresh.id} and fresh.parameters["Fresh"] == fresh.id
    again = dt.run("two.py", quiet=True)
    assert {step.cache_of for step in again.steps.values()} == {first.id}, "what a start without it made stands"


def test_without_the_cache_every_step_runs_and_replaces_what_was_cached(place: Path, first: dt.Run) -> None:
    off = dt.run("two.py", cache=False, quiet=True)
    assert set(whys(off).values()) == {("Succeeded", ("the cache is off",))} and tokens(off) == {"no"}
    assert {step.cache_of for step in dt.run("two.py", quiet=True).steps.values()} == {off.id}


def test_a_run_of_every_step_goes_on_with_no_run_that_asked_the_cache() -> None:
    asked, off = (Request("{}", {}, Options(pipeline="p", cache=cache)) for cache in (True, False))
    assert asked.hash != off.hash


def test_a_fresh_run_that_failed_goes_on_with_its_token(place: Path, first: dt.Run) -> None:
    stop = place / "stop"
    stop.touch()
    failed = dt.run("two.py", fresh=True, quiet=True, stop=str(stop))
    assert failed.status == "Failed"
    stop.unlink()
    failed.resume()
    assert failed.status == "Succeeded" and tokens(failed) == {failed.id}


def test_a_torn_upload_is_found_though_its_times_vouch_for_it(place: Path, first: dt.Run) -> None:
    (upload,) = ObjectStore(Home(None).objects).find("s3://drivetrain-local/pipelines/two/data/")
    whole = upload.path.read_bytes()
    upload.path.write_bytes(b"9\n2\n")
    trust_its_times(upload.path)
    fresh = dt.run("two.py", fresh=True, quiet=True)
    assert (fresh.steps["use"].outputs["out"] / "rows").read_text() == "1\n2\n" and upload.path.read_bytes() == whole


def trust_its_times(path: Path) -> None:
    """Enter a file's times as those that it had when it was uploaded, as bit rot leaves them."""
    from drivetrain.run_store.writer import LedgerWriter

    stat = path.stat()
    with LedgerWriter(Home(None)) as ledger, ledger.transaction() as db:
        db.execute(
            "UPDATE objects SET mtime_ns = ?, ctime_ns = ? WHERE uri LIKE '%/rows.csv'",
            (stat.st_mtime_ns, stat.st_ctime_ns),
        )


def test_kept_checkpoints_of_a_definition_without_the_parameter_are_refused(runs: LocalRuns) -> None:
    uri = "s3://bucket/kept/"
    steps = [runs.training("fit", "print('fitting')", checkpoints=uri)]
    runs.start(steps, fresh=True)
    assert [event.why for event in runs.of(StepStarted)] == [("the cache is off",)]
    runs.put("kept/last.pt", "weights")
    with pytest.raises(UserError, match=r"--fresh: step 'fit' would begin with 1 files .* in s3://bucket/kept"):
        runs.start(steps, fresh=True)


def test_the_line_of_a_training_shows_its_starting_point(runs: LocalRuns) -> None:
    said = "print('loading')\nprint('starts from: step 8 of this training')\nprint('starts from: 2')\nprint('done')"
    runs.start([runs.training("fit", said, checkpoints="s3://bucket/kept/")])
    assert [event.note for event in runs.of(StepNoted)] == ["starts from step 8 of this training"]
    assert [event.value for event in runs.of(StepFinished)] == ["starts from step 8 of this training"]
