"""Unions whose values pass by their types, and are read from anything else."""

from __future__ import annotations

import copy
import json
import pickle
from enum import StrEnum
from math import inf

import pytest
from pydantic import ValidationError

from drivetrain import Checkpoint, Pipeline, Settings
from drivetrain.schemas.settings import settings_schema
from drivetrain.spec import FrozenDict
from drivetrain.spec.steps import FailStep, LambdaStep
from drivetrain.spec.values import OutputRef

MODEL = OutputRef(step="train", output="model")


class Size(StrEnum):
    SMALL = "small"


def payload(value: object) -> object:
    return LambdaStep(name="call", function="f", payload={"a": value}).payload["a"]  # type: ignore[reportArgumentType]


def test_a_value_of_the_union_passes_as_it_is() -> None:
    assert payload(MODEL) is MODEL
    assert [type(payload(value)) for value in (True, 1, 1.0, "x")] == [bool, int, float, str]


def test_anything_else_is_read() -> None:
    assert payload(json.loads(MODEL.model_dump_json())) == MODEL
    assert payload(Size.SMALL) == "small"


@pytest.mark.parametrize(
    ("value", "end"),
    [(None, ".bool"), (inf, ".float"), ({"kind": "output", "step": "train"}, ".output.output")],
)
def test_what_is_none_is_refused_by_its_place(value: object, end: str) -> None:
    with pytest.raises(ValidationError) as refused:
        payload(value)
    places = [".".join(map(str, error["loc"])) for error in refused.value.errors()]
    assert all(place.startswith("payload.a.") for place in places)
    assert any(place.endswith(end) for place in places)


def test_a_step_is_told_by_its_kind() -> None:
    stop = FailStep(name="stop", message="no")
    assert Pipeline.model_validate(
        {"name": "p", "steps": [{"kind": "fail", "name": "stop", "message": "no"}]}
    ).steps == (stop,)
    with pytest.raises(ValidationError, match="Input tag 'end' found using 'kind'"):
        Pipeline.model_validate({"name": "p", "steps": [{"kind": "end", "name": "stop"}]})


def test_settings_with_such_a_field_have_a_schema() -> None:
    class Mine(Settings):
        checkpoint: Checkpoint = Checkpoint()

    kinds = settings_schema(Mine)["$defs"]["Checkpoint"]["properties"]["uri"]["anyOf"]
    assert {"type": "string"} in kinds
    assert {"type": "null"} in kinds
    assert any("discriminator" in kind for kind in kinds)


def test_what_is_frozen_can_be_copied_and_pickled() -> None:
    map_of_labels = FrozenDict({"team": "vision"})
    for copied in (copy.deepcopy(map_of_labels), pickle.loads(pickle.dumps(map_of_labels))):
        assert copied == map_of_labels and type(copied) is FrozenDict
        with pytest.raises(TypeError, match="immutable"):
            copied["team"] = "speech"
