"""Looks at sources, where something starts a pipeline: which steps are added, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import (
    CachePolicy,
    Cluster,
    Network,
    Parameter,
    Pipeline,
    RegistryEvent,
    Schedule,
    UserError,
    current_item,
    fixed,
    for_each,
    join,
    script,
    step,
    when,
)
from drivetrain.components import Input, Output, component
from drivetrain.components.read_source import read_source
from drivetrain.components.source_version import source_version
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import READ_SOURCE, SOURCE_VERSION, SOURCES_VARIABLE
from drivetrain.triggers.looking import refuse_data_that_never_change, with_looks

NETWORK = Network(subnets=("subnet-0ab12c34",), security_groups=("sg-0ab12c34",))
NIGHTLY = Schedule(name="night", cron="0 2 * * ? *")


@component
def fit(data: Input, model: Output, rate: float = 1.0) -> dict[str, float]:
    return {"loss": rate}


@component(job="training")
def train(data: Input, model: Output) -> None: ...


def looked(*steps: Any, triggers: Any = (NIGHTLY,), **given: Any) -> dict[str, Any]:
    pipeline = with_looks(Pipeline(name="nightly", steps=steps, triggers=triggers, **given))
    return Graph(pipeline).by_name


def looks(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: dict(each.parameters)
        for name, each in found.items()
        if getattr(each, "program", None) and each.program.target == SOURCE_VERSION
    }


def test_the_constants_name_the_components() -> None:
    assert step(source_version, source="s3://lake/raw").program.target == SOURCE_VERSION
    assert step(read_source, source="s3://lake/raw").program.target == READ_SOURCE


@pytest.mark.parametrize("trigger", [NIGHTLY, RegistryEvent(name="approved", group="base")])
def test_a_prefix_is_looked_at_and_its_version_is_in_the_readers_key(trigger: Any) -> None:
    found = looked(step(fit, data="s3://lake/raw/"), triggers=[trigger])
    assert [*found] == ["look-at-fit-data", "fit"]
    look = found["look-at-fit-data"]
    assert dict(look.parameters) == {"source": "s3://lake/raw/", "of_input": True}
    assert look.cache == CachePolicy(enabled=False)
    assert found["fit"].environment[SOURCES_VARIABLE] == look.text("version")
    assert found["fit"].cache is None  # the pipeline's


def test_without_a_trigger_no_look_is_added() -> None:
    assert [*looked(step(fit, data="s3://lake/raw/"), triggers=())] == ["fit"]


def test_readers_of_one_prefix_share_a_look() -> None:
    both = script("join.py", inputs={"a": "s3://lake/raw/", "b": "s3://lake/more/"}, outputs=["rows"])
    found = looked(step(fit, data="s3://lake/raw/"), both)
    assert [*found] == ["look-at-fit-data", "fit", "look-at-join-b", "join"]
    told = found["join"].environment
    assert {name: each.step for name, each in told.items()} == {
        SOURCES_VARIABLE: "look-at-fit-data",
        f"{SOURCES_VARIABLE}_2": "look-at-join-b",
    }


def test_many_sources_keep_variables_within_the_limit_of_a_job() -> None:
    inputs = {f"i{number}": f"s3://lake/{number}/" for number in range(9)}  # with the code a job has at most 10
    found = looked(script("join.py", inputs=inputs, outputs=["rows"]))
    told = found["join"].environment.values()
    # Each is one version, of 64 characters; all in one would have 584, and 256 may be given.
    assert [each.step for each in told] == [*looks(found)] and len(told) == 9


def test_parameters_in_addresses_take_the_values_of_the_start() -> None:
    day = Parameter.string("Day", "monday")
    raw = Parameter.string("Raw", "s3://lake/raw/")
    joined = join("s3://lake/", day)
    found = looked(step(fit, data=raw), step(fit, name="other", data=joined), parameters=[day, raw])
    assert found["look-at-fit-data"].parameters["source"] == raw.ref()
    assert found["look-at-other-data"].parameters["source"] == joined


def test_step_outputs_and_fixed_data_have_no_look() -> None:
    first = step(fit, data=fixed("s3://lake/raw/"))
    found = looked(first, step(fit, name="second", data=first["model"]), step(read_source, source=fixed("delta:/a")))
    assert looks(found) == {}
    assert found["fit"].fixed == ("data",)


def test_read_source_reads_the_version_that_was_seen() -> None:
    asked: dict[str, Any] = {"source": "sqlite:/shop.db", "query": "select * from orders", "watermark": "id"}
    found = looked(step(read_source, **asked))
    (look,) = looks(found)
    assert looks(found)[look] == asked
    assert found["read-source"].parameters["version"] == found[look].text("version")


def test_an_explicit_version_is_kept() -> None:
    own = step(source_version, source="delta:/a")
    found = looked(own, step(read_source, source="delta:/a", version=own.text("version")))
    assert [*found] == ["source-version", "read-source"]


def test_data_without_versions_is_read_anew_each_time() -> None:
    each = step(fit, name="each", data=join("s3://lake/", current_item()))
    found = looked(
        step(read_source, source="sqlite:/shop.db", query="select 1"),
        step(train, data="fsx://fs-0123456789abcdef0/mount/folder", cluster=Cluster(network=NETWORK)),
        for_each(["a", "b"], [each], name="sites"),
    )
    assert looks(found) == {}
    assert [found[name].cache for name in ("read-source", "train", "each")] == [CachePolicy(enabled=False)] * 3


def test_a_step_without_cache_needs_no_look() -> None:
    assert looks(looked(step(fit, data="s3://lake/raw/", cache=CachePolicy(enabled=False)))) == {}


def test_a_reader_in_a_branch_uses_a_look_before_the_condition() -> None:
    first = step(fit, data="s3://lake/raw/")
    gate = when(first.metric("loss") < 1, then=[step(fit, name="again", data="s3://lake/more/")], name="gate")
    found = looked(first, gate)
    assert [*found] == ["look-at-fit-data", "fit", "look-at-again-data", "gate", "again"]
    assert found["again"].environment[SOURCES_VARIABLE] == found["look-at-again-data"].text("version")


def test_a_look_avoids_existing_step_names() -> None:
    found = looked(step(fit, name="look-at-fit-data", data=fixed("s3://a/b")), step(fit, data="s3://lake/raw/"))
    assert [*found] == ["look-at-fit-data", "look-at-fit-data-2", "fit"]


def test_a_pipeline_that_is_looked_at_twice_has_one_look() -> None:
    once = with_looks(Pipeline(name="nightly", steps=[step(fit, data="s3://lake/raw/")], triggers=[NIGHTLY]))
    assert with_looks(once) is once


@pytest.mark.parametrize(
    ("data", "triggers", "refused"),
    [
        ("rows.csv", [NIGHTLY], True),
        ("example:digits", [NIGHTLY], True),
        (fixed("rows.csv"), [NIGHTLY], False),
        ("s3://lake/raw/", [NIGHTLY], False),
        ("rows.csv", [NIGHTLY.model_copy(update={"enabled": False})], False),
        ("rows.csv", [RegistryEvent(name="approved", group="base")], False),
    ],
)
def test_a_schedule_over_one_uploaded_copy_is_refused(data: Any, triggers: Any, refused: bool) -> None:
    pipeline = Pipeline(name="nightly", steps=[step(fit, data=data)], triggers=triggers)
    if not refused:
        assert refuse_data_that_never_change(pipeline) is None
        return
    with pytest.raises(UserError, match=r"schedule 'night' starts.*s3:// prefix.*data=fixed\("):
        refuse_data_that_never_change(pipeline)
