"""A source's version in a pipeline: the same version is taken from the cache, a new one is read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, step
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.run_store.events import Event, StepFinished
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner


def change(database: Path, sql: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(sql)


@pytest.mark.slow
def test_the_same_version_is_a_cache_hit_and_a_new_one_a_miss(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    numbers = "with recursive n(id) as (select 1 union all select id + 1 from n limit 99)"
    change(database, f"create table orders as {numbers} select id, id % 3 as label from n")
    where: dict[str, Any] = {"source": f"sqlite:{database}", "query": "select * from orders", "watermark": "id"}
    found = step(source_version, **where)
    table = step(read_source, version=found.text("version"), **where)
    data = step(prepare_data, raw=table["output"], key="id", label="label")
    compiled = compile_pipeline(Pipeline(name="shop", steps=[found, table, data]), here=True)
    home = Home(tmp_path / "home")

    def run() -> dict[str, str]:
        events: list[Event] = []
        summary = Runner(home, events.append).start(
            compiled.text, {}, Options(pipeline="shop", cache=True), assets=compiled.assets
        )
        assert summary.status == "Succeeded", summary.reason
        return {event.step: event.status for event in events if isinstance(event, StepFinished)}

    first = run()
    assert set(first.values()) == {"Succeeded"}
    assert run() == {**first, "read-source": "Cached", "prepare-data": "Cached"}
    change(database, "insert into orders values (1000, 1)")
    assert run() == first
