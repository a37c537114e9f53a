"""Steps that look at what others read: they look again where a run goes on, and what is said of what they found."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.cli.outcome import summary
from drivetrain.operations.notices import notice_text
from drivetrain.run_store.events import StepNoted, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.spec.resources import READ_SOURCE, SOURCE_VERSION, SOURCES_VARIABLE
from drivetrain.targets.sagemaker.run.execution import cache
from drivetrain.telling.content.from_ledger import run_facts
from tests.fixtures.local_runs import BUCKET, LocalRuns

LOOK = """
import json, os, pathlib
rows = pathlib.Path(os.environ["ROWS"]).read_text()
pathlib.Path("/opt/ml/processing/output/metrics/metrics.json").write_text(json.dumps({"version": rows}))
"""
READ = """
import pathlib, sys
rows = pathlib.Path("/opt/ml/processing/input/rows/a.csv").read_text()
if rows == "bad" and "--picky" in sys.argv:
    sys.exit("bad rows")
pathlib.Path("/opt/ml/processing/output/out/n.txt").write_text(rows)
"""
VERSION = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.look.PropertyFiles.metrics"}, "Path": "version"}}
FRESH = [{"Name": "Fresh", "Type": "String", "DefaultValue": "no"}, {"Name": "Least", "Type": "Float"}]


class Rows:
    """A pipeline that reads `s3://bucket/rows/` in two steps, of which `picky` fails of bad rows, and the rows."""

    def __init__(self, runs: LocalRuns) -> None:
        self.runs = runs
        self.write("bad")
        look = runs.processing(
            "look",
            LOOK,
            outputs=["metrics"],
            environment={"ROWS": str(self.file)},
            arguments=[SOURCE_VERSION, "--source", f"{BUCKET}/rows/"],
        )
        look["PropertyFiles"] = [{"PropertyFileName": "metrics", "OutputName": "metrics", "FilePath": "metrics.json"}]
        self.steps = [look, self.reader("easy"), self.reader("picky", "--picky", DependsOn=["easy"])]

    def reader(self, name: str, *words: str, **fields: Any) -> dict[str, Any]:
        return self.runs.processing(
            name,
            READ,
            inputs={"rows": f"{BUCKET}/rows/"},
            outputs=["out"],
            environment={SOURCES_VARIABLE: VERSION},
            arguments=words,
            cache=True,
            **fields,
        )

    @property
    def file(self) -> Path:
        return self.runs.store.path(f"{BUCKET}/rows/a.csv")

    def write(self, rows: str) -> None:
        self.runs.put("rows/a.csv", rows)

    def run(self, least: float = 0.9, **options: Any) -> str:
        return self.runs.start(self.steps, {"Least": least}, parameters=FRESH, **options).execution

    def found(self, step: str) -> str:
        """What a step of the latest run read."""
        with Ledger(self.runs.home) as ledger:
            last = ledger.execution("latest").id
            row = ledger.step(last, step)
        return self.runs.read(f"{BUCKET}/runs/{row.cache_of or last}/{step}/out/n.txt")

    def since(self, execution: str) -> str | None:
        with Ledger(self.runs.home) as ledger:
            return ledger.execution(execution).nothing_new_since

    def ran(self) -> set[str]:
        """The steps of the latest run that were started."""
        return {event.step for event in self.runs.of(StepStarted)}


@pytest.fixture
def rows(runs: LocalRuns) -> Rows:
    return Rows(runs)


def test_a_run_that_goes_on_looks_again_and_its_result_is_of_the_version_that_was_read(rows: Rows) -> None:
    rows.run()
    assert rows.runs.statuses() == {"look": "Succeeded", "easy": "Succeeded", "picky": "Failed"}
    rows.write("good")
    assert rows.runs.resume().status == "Succeeded"
    assert [event.step for event in rows.runs.of(StepStarted)] == ["look", "picky"]
    (noted,) = rows.runs.of(StepNoted)
    assert (noted.step, noted.note) == ("easy", "done before, with data of the earlier look")
    with Ledger(rows.runs.home) as ledger:
        last = ledger.execution("latest").id
        assert ledger.step(last, "easy").why[-1] == "with data of the earlier look"
    rows.write("bad")
    rows.run()
    # What was read of the good rows is not taken for the bad ones; what was read of the bad rows is.
    assert rows.runs.statuses() == {"look": "Succeeded", "easy": "Cached", "picky": "Failed"}


def test_remaining_iterations_of_a_resumed_loop_use_the_new_look(rows: Rows) -> None:
    body = rows.runs.processing(
        "each",
        READ,
        inputs={"rows": f"{BUCKET}/rows/"},
        outputs=["out"],
        environment={SOURCES_VARIABLE: VERSION},
        arguments=[{"Get": "ForEach.CurrentItem"}],
    )
    fields = {"IterableItems": ["--easy", "--picky"], "MaxConcurrency": 1, "ForEachBody": [body]}
    rows.steps[1:] = [{"Name": "loop", "Type": "ForEach", "Arguments": fields}]
    rows.run()
    rows.write("good")
    assert rows.runs.resume().status == "Succeeded"
    with Ledger(rows.runs.home) as ledger:
        easy, picky = (ledger.step(ledger.execution("latest").id, name) for name in ("each-0", "each-1"))
    assert [row.arguments["Environment"][SOURCES_VARIABLE] for row in (easy, picky)] == ["bad", "good"]
    assert easy.why[-1:] == ("with data of the earlier look",) and "look" not in str(picky.why)


def test_a_run_that_goes_on_does_not_look_again_for_readers_that_are_done(rows: Rows) -> None:
    rows.steps[-1] = rows.runs.processing("picky", "import sys; sys.exit(1)", DependsOn=["easy"])
    rows.run()
    rows.write("good")
    rows.runs.resume()
    assert [event.step for event in rows.runs.of(StepStarted)] == ["picky"] and not rows.runs.of(StepNoted)


def test_selecting_a_reader_looks_at_its_source(rows: Rows) -> None:
    rows.run()
    rows.write("good")
    rows.run(selected=("picky",))
    assert [event.step for event in rows.runs.of(StepStarted)] == ["look", "picky"]


COMPARE = ["drivetrain.components.compare:compare", {"Get": "Parameters.Least"}]


def judged(rows: Rows) -> None:
    """Good rows, and a step without a cache that judges what was made of them."""
    rows.write("good")
    rows.steps.append(rows.runs.processing("compare", "pass", arguments=COMPARE, DependsOn=["picky"]))


def test_a_run_ends_early_if_nothing_is_new_and_has_the_results_of_the_one_before(rows: Rows) -> None:
    judged(rows)
    first = rows.run()
    assert rows.since(first) is None
    assert rows.since(rows.run()) == first and rows.ran() == {"look"}
    every = {"look": "Succeeded", "easy": "Cached", "picky": "Cached", "compare": "Cached"}
    assert rows.runs.statuses() == every and rows.found("picky") == "good"
    with Ledger(rows.runs.home) as ledger:
        row = ledger.step(ledger.execution("latest").id, "compare")
        assert row.cache_of == first and row.why == (f"nothing new since {first}",)
        facts = run_facts(ledger, "latest")
    assert f"nothing new since {first}" in notice_text(facts) and f"nothing new since {first}" in summary(facts, None)
    # The one before is that which ran to its end; steps of it can be run again by themselves.
    assert rows.since(rows.run()) == first
    rows.run(selected=("compare",))
    assert rows.since(rows.run()) == first
    # Another threshold of a step without a cache is something new, and so is what lies there then.
    assert rows.since(changed := rows.run(0.5)) is None and rows.ran() == {"look", "compare"}
    assert rows.since(rows.run(0.5)) == changed
    assert rows.since(rows.run()) is None
    rows.write("other")
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "easy", "picky", "compare"}
    rows.write("good")
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "compare"}


def test_without_a_source_it_ends_early_only_where_something_starts_the_pipeline(runs: LocalRuns) -> None:
    steps = [runs.processing("make", "pass", cache=True), runs.processing("compare", "pass", arguments=COMPARE[:1])]
    first = runs.start(steps).execution
    assert runs.start(steps).reason is None
    last = runs.start(steps, triggered=True)
    assert last.reason is not None and last.reason.startswith("nothing new since ") and first not in last.reason
    assert runs.statuses() == {"make": "Cached", "compare": "Cached"} and not runs.of(StepStarted)


def test_a_run_that_is_to_run_every_step_does(rows: Rows) -> None:
    judged(rows)
    rows.run()
    last = rows.run(cache=False)
    assert rows.ran() == {"look", "easy", "picky", "compare"}
    rows.run(fresh=True)
    assert rows.ran() == {"look", "easy", "picky", "compare"}
    # What --no-cache made is remembered, and what --fresh made is its own.
    assert rows.since(rows.run()) == last
    assert rows.since(rows.run(stubs={"compare": {}})) is None


def test_the_night_after_a_failed_one_catches_up(rows: Rows) -> None:
    judged(rows)
    rows.run()
    rows.write("bad")
    rows.run()
    rows.write("good")
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "compare"}


def test_a_run_after_a_failed_one_fails_again_on_the_same_rows(rows: Rows) -> None:
    rows.run()
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "picky"}


def test_a_new_version_of_a_source_that_is_no_file_is_new(rows: Rows) -> None:
    rows.steps[1:] = [rows.runs.processing("table", "pass", arguments=[READ_SOURCE, "--version", VERSION], cache=True)]
    rows.run()
    rows.write("good")
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "table"}


@pytest.mark.slow_cases(but=["program"])
@pytest.mark.parametrize("what", ["program", "prefix", "time"])
def test_a_step_that_may_read_unchecked_data_runs_each_time(
    rows: Rows, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "drivetrain.targets.sagemaker.run.execution.scope.moment", str
    )  # both runs may begin within a second
    judged(rows)
    of = {"arguments": [{"Get": "Execution.StartDateTime"}], "cache": True} if what == "time" else {}
    inputs = {"rows": f"{BUCKET}/rows/"} if what == "prefix" else {}
    rows.steps.append(rows.runs.processing("own", "pass", inputs=inputs, DependsOn=["picky"], **of))
    rows.run()
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "compare", "own"}


def test_results_that_are_gone_or_too_old_are_made_again(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(rows)
    rows.steps[1]["CacheConfig"]["ExpireAfter"] = "P7D"
    first = rows.run()
    rows.runs.store.path(f"{BUCKET}/runs/{first}/picky/out/n.txt").unlink()
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "picky", "compare"}
    late = SimpleNamespace(time=lambda: time.time() + 8 * 86_400)
    monkeypatch.setattr(cache, "time", late)
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "easy", "compare"}


def test_a_result_of_an_earlier_look_is_not_reused_by_other_runs(rows: Rows) -> None:
    judged(rows)
    rows.write("bad")
    rows.run()
    rows.write("good")
    assert rows.runs.resume().status == "Succeeded"
    assert rows.since(rows.run()) is None and rows.found("easy") == "good"


def test_an_earlier_look_at_a_source_that_is_no_file_is_not_reused(rows: Rows) -> None:
    table = rows.runs.processing("table", "pass", arguments=[READ_SOURCE, "--version", VERSION], cache=True)
    rows.steps[1:] = [table, rows.reader("picky", "--picky", DependsOn=["table"])]
    rows.run()
    rows.write("good")
    assert rows.runs.resume().status == "Succeeded" and rows.ran() >= {"look", "picky"}
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "table"}


def test_changed_bytes_without_a_look_give_a_warning(rows: Rows) -> None:
    judged(rows)
    fixed = rows.runs.put("fixed/a.csv", "one")
    rows.steps.append(rows.runs.processing("fixed", "pass", inputs={"rows": fixed}, cache=True))
    rows.run()
    rows.runs.put("fixed/a.csv", "two")
    assert rows.since(rows.run()) is None and rows.ran() == {"look", "compare"}


def test_new_data_name_the_input(rows: Rows) -> None:
    table = rows.runs.processing("table", "pass", arguments=[READ_SOURCE, "--version", VERSION], cache=True)
    rows.steps = [*rows.steps[:2], table]
    rows.run()
    rows.write("good")
    rows.run()
    why = {event.step: event.why for event in rows.runs.of(StepStarted)}
    assert why["easy"] == ("new data in rows",) and why["table"] == (f"new data of {BUCKET}/rows/",)
