"""Steps that look at what others read: they look again where a run goes on, and what is said of what they found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.spec.resources import READ_SOURCE, SOURCE_VERSION, SOURCES_VARIABLE
from drivetrain.targets.events import StepNoted, StepStarted
from drivetrain.targets.local.ledger.reader import Ledger
from drivetrain.targets.local.organising.news import nothing_new_since
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
            return nothing_new_since(ledger, execution)


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


def test_of_a_loop_that_goes_on_the_iterations_that_are_left_get_what_is_seen_now(rows: Rows) -> None:
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


def test_who_selects_a_reader_has_its_source_looked_at(rows: Rows) -> None:
    rows.run()
    rows.write("good")
    rows.run(selected=("picky",))
    assert [event.step for event in rows.runs.of(StepStarted)] == ["look", "picky"]


def test_nothing_new_is_said_of_the_latest_equal_run(rows: Rows) -> None:
    rows.write("good")
    rows.steps.append(rows.runs.processing("compare", "pass", arguments=[{"Get": "Parameters.Least"}]))
    first = rows.run()
    assert rows.since(first) is None
    second = rows.run()
    assert rows.since(second) == first
    assert rows.since(third := rows.run()) == second
    # Another threshold of a step without a cache is something new; so are steps that were left out.
    assert rows.since(rows.run(0.5)) is None
    assert rows.since(rows.run(selected=("compare",))) is None
    assert rows.since(rows.run()) == third


def test_nothing_new_is_not_said_where_bytes_that_nobody_looks_at_have_changed(rows: Rows) -> None:
    rows.steps = [rows.runs.processing("easy", READ, inputs={"rows": f"{BUCKET}/rows/"}, outputs=["out"], cache=True)]
    first = rows.run()
    assert rows.since(rows.run()) == first
    rows.write("good")
    last = rows.run()
    assert rows.runs.statuses() == {"easy": "Cached"} and rows.since(last) is None
    rows.steps[0].pop("CacheConfig")
    rows.run()
    rows.write("other")
    assert rows.since(rows.run()) is None


def test_of_new_data_the_input_is_named(rows: Rows) -> None:
    table = rows.runs.processing("table", "pass", arguments=[READ_SOURCE, "--version", VERSION], cache=True)
    rows.steps = [*rows.steps[:2], table]
    rows.run()
    rows.write("good")
    rows.run()
    why = {event.step: event.why for event in rows.runs.of(StepStarted)}
    assert why["easy"] == ("new data in rows",) and why["table"] == (f"new data of {BUCKET}/rows/",)
