"""Unions whose values pass by their types, and are read from anything else."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable
from enum import StrEnum
from math import inf

import pytest
from pydantic import ValidationError

from drivetrain import Checkpoint, Cluster, Pipeline, Resources, Schedule, Settings, SpecError, Spot
from drivetrain.schemas.settings import settings_schema
from drivetrain.spec import FrozenDict
from drivetrain.spec.steps import FailStep, LambdaStep
from drivetrain.spec.values import OutputRef

MODEL = OutputRef(step="train", output="model")
STOP = FailStep(name="stop", message="no")


class Size(StrEnum):
    SMALL = "small"


def payload(value: object) -> object:
    return LambdaStep(name="call", function="f", payload={"a": value}).payload["a"]  # type: ignore[reportArgumentType]


def test_members_of_the_union_pass_unchanged() -> None:
    assert payload(MODEL) is MODEL
    assert [type(payload(value)) for value in (True, 1, 1.0, "x")] == [bool, int, float, str]


def test_mappings_are_parsed() -> None:
    assert payload(json.loads(MODEL.model_dump_json())) == MODEL
    assert payload(Size.SMALL) == "small"


@pytest.mark.parametrize(
    ("value", "end"),
    [(None, ".bool"), (inf, ".float"), ({"kind": "output", "step": "train"}, ".output.output")],
)
def test_invalid_values_are_refused_with_their_place(value: object, end: str) -> None:
    with pytest.raises(ValidationError) as refused:
        LambdaStep.model_validate({"name": "call", "function": "f", "payload": {"a": value}})
    places = [".".join(map(str, error["loc"])) for error in refused.value.errors()]
    assert all(place.startswith("payload.a.") for place in places)
    assert any(place.endswith(end) for place in places)


class Mine(Settings):
    epochs: int = 3
    api_token: int = 0


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Cluster(count=0), "Cluster.count is 0: Input should be greater than or equal to 1."),
        (lambda: Cluster(count=None), "Cluster.count is None: give a whole number."),  # type: ignore[arg-type]
        (lambda: Cluster(count=True), "Cluster.count is True: give a whole number."),
        (lambda: Resources(cpu=True), "Resources.cpu is True: give a number."),
        (lambda: Cluster(spot=5), "Cluster.spot is 5: give Spot(...)."),  # type: ignore[arg-type]
        (lambda: Spot(3600), "Spot(3600): its fields are given by name, such as Spot(max_wait_seconds=...)."),  # type: ignore
        (lambda: Schedule("1 day"), "Schedule('1 day'): its fields are given by name, such as Schedule(cron=...)."),  # type: ignore
        (
            lambda: Pipeline(name="p", steps=[STOP], triggers=Schedule(name="t", rate="1 day")),
            "Pipeline.triggers is one Schedule. Give a list: triggers=[...].",
        ),
        (lambda: Mine(epoch=5), "Mine.epoch does not exist. Did you mean 'epochs'?"),  # type: ignore[call-arg]
        (lambda: Mine(api_token="hunter2"), "Mine.api_token is ***: give a whole number"),  # type: ignore
        (lambda: payload(None), "payload.a is None: give True or False or a whole number or a number or a text."),
    ],
)
def test_invalid_construction_is_refused_in_one_line(build: Callable[[], object], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        build()
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"max_parallel_steps": 0}, "Pipeline.max_parallel_steps is 0"),
        ({"stepz": ()}, "Pipeline.stepz does not exist. Did you mean 'steps'?"),
        ({"steps": [STOP, STOP]}, "2 steps are called 'stop'."),
    ],
)
def test_copies_are_validated(update: dict[str, object], said: str) -> None:
    built = Pipeline(name="p", steps=[STOP])
    with pytest.raises(SpecError, match=re.escape(said)):
        built.model_copy(update=update)
    copied = built.model_copy(update={"tags": {"team": "vision"}})
    assert copied == Pipeline(name="p", steps=[STOP], tags={"team": "vision"}) and type(copied.tags) is FrozenDict
    assert copied.steps[0] is STOP and copied.model_fields_set == {"name", "steps", "tags"}


def test_steps_are_distinguished_by_their_kind() -> None:
    assert Pipeline.model_validate(
        {"name": "p", "steps": [{"kind": "fail", "name": "stop", "message": "no"}]}
    ).steps == (STOP,)
    with pytest.raises(ValidationError, match="Input tag 'end' found using 'kind'"):
        Pipeline.model_validate({"name": "p", "steps": [{"kind": "end", "name": "stop"}]})


def test_settings_with_such_a_field_have_a_schema() -> None:
    class Mine(Settings):
        checkpoint: Checkpoint = Checkpoint()

    kinds = settings_schema(Mine)["$defs"]["Checkpoint"]["properties"]["uri"]["anyOf"]
    assert {"type": "string"} in kinds
    assert {"type": "null"} in kinds
    assert any("discriminator" in kind for kind in kinds)


def test_frozen_values_can_be_copied_and_pickled() -> None:
    map_of_labels = FrozenDict({"team": "vision"})
    for copied in (copy.deepcopy(map_of_labels), pickle.loads(pickle.dumps(map_of_labels))):
        assert copied == map_of_labels and type(copied) is FrozenDict
        with pytest.raises(TypeError, match="immutable"):
            copied["team"] = "speech"
