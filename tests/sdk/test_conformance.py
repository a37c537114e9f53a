"""SDK v3 builds the flagship with its own classes; its definition and ours are compared field by field.

    make test-in ENV=sdk

Every difference stands in DIFFERENCES with its reason. Nothing else may differ, and a row that no longer applies is an
error, too. tests/fixtures/sagemaker_sdk/flagship.py is what the SDK was asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import pytest

from drivetrain.targets.sagemaker.compile.jobs import start
from drivetrain.targets.sagemaker.document.difference.difference import differences

pytestmark = pytest.mark.sdk


class Nothing(Enum):
    ABSENT = "absent"


ABSENT = Nothing.ABSENT
NAMES = ("Name", "ChannelName", "InputName", "OutputName", "PropertyFileName")


class Found(NamedTuple):
    """Where the two differ, and how."""

    place: str
    sdk: Any
    ours: Any


class Row(NamedTuple):
    """A difference that is meant to be: the place (a regular expression) and how many places that are, what the SDK and
    we write there, and why."""

    place: str
    count: int
    sdk: Any
    ours: Any
    why: str


REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
DIFFERENCES = [
    Row(
        r"MlflowConfig",
        1,
        None,
        ABSENT,
        "The SDK writes null where no tracking server is given; we leave the field out.",
    ),
    Row(
        r"Steps\.(prepare|evaluate|compare)\.Arguments\.AppSpecification\.ImageUri"
        r"|Steps\.train\.Arguments\.AlgorithmSpecification\.TrainingImage",
        4,
        f"{REGISTRY}/pytorch:2.13-cpu-amzn2023-sagemaker",
        f"{REGISTRY}/pytorch:2.13.0-cpu-amzn2023-sagemaker",
        "The SDK's tag names a line, under which another image may come any day. Ours names the patch release whose "
        "packages images.json documents: by them it is decided which wheels travel.",
    ),
    Row(
        r"Steps\.register-model\.Arguments\.InferenceSpecification\.Containers\.0\.Image",
        1,
        f"{REGISTRY}/pytorch-inference:2.6-cpu-py312",
        f"{REGISTRY}/pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker",
        "As above: a line, and one of its releases.",
    ),
    Row(
        r"Steps\.(prepare|evaluate|compare)\.Arguments\.ProcessingInputs\.\w+\.AppManaged"
        r"|Steps\.(prepare|evaluate|compare)\.Arguments\.ProcessingOutputConfig\.Outputs\.\w+\.AppManaged",
        18,
        ABSENT,
        False,
        "What the service assumes; version 2 of the SDK writes it out, too.",
    ),
    Row(
        r"Steps\.train\.Arguments\.AlgorithmSpecification\.ContainerEntrypoint",
        1,
        ABSENT,
        start("/opt/ml/input/data/code", "<start's sha256>"),
        "ModelTrainer takes no command, only a SourceCode, which it uploads with drivers of its own under a key with "
        "the time of the build. Our start file comes with the code's channel, is checked against its hash, and checks "
        "the code against its own.",
    ),
    Row(
        r"Steps\.train\.Arguments\.AlgorithmSpecification\.ContainerArguments",
        1,
        ABSENT,
        [
            "--code",
            "<sha256>",
            "--training",
            "--folders",
            "model,output,checkpoints",
            "drivetrain.components.train:train",
        ],
        "As above: what the start file is told.",
    ),
    Row(
        r"Steps\.register-model\.Arguments\.ModelMetrics\.(Bias|Explainability)",
        2,
        {},
        ABSENT,
        "The SDK writes empty objects for reports that are not given; the service knows them as optional.",
    ),
    Row(
        r"Steps\.register-model\.Arguments\.SkipModelValidation",
        1,
        "None",
        ABSENT,
        "What CreateModelPackage assumes where the field is left out.",
    ),
    Row(
        r"Steps\.register-model\.Arguments\.InferenceSpecification\.Containers\.0\.Environment\.SAGEMAKER_REGION",
        1,
        "us-east-1",
        ABSENT,
        "The SDK adds its session's region, with which the toolkit would fetch the code from S3. The code of our "
        "models lies in their archive.",
    ),
]


@pytest.fixture(scope="module")
def definitions(online: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The SDK's and ours, in which the code's hash is a word."""
    said = online["conformance"]

    def worded(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: worded(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [worded(inner) for inner in value]
        words = {**dict.fromkeys(said["sha256"], "<sha256>"), said["start_sha256"]: "<start's sha256>"}
        return words.get(value, value)

    return worded(said["sdk"]), worded(said["ours"])


@pytest.fixture(scope="module")
def found(definitions: tuple[dict[str, Any], dict[str, Any]]) -> list[Found]:
    return list(compare(*definitions))


def test_every_difference_has_a_reason(found: list[Found]) -> None:
    assert [each for each in found if not explaining(each)] == []


def test_every_reason_is_still_needed(found: list[Found]) -> None:
    assert unmet(found) == []


def test_the_whole_pipeline_is_compared(definitions: tuple[dict[str, Any], dict[str, Any]]) -> None:
    sdk, ours = definitions
    assert [step["Name"] for step in sdk["Steps"]] == ["prepare", "train", "evaluate", "compare", "register"]
    same = sum(1 for _ in leaves(ours)) - sum(sum(1 for _ in leaves(each.ours)) for each in compare(sdk, ours))
    assert same > 400, "fields in which both say the same"


def test_a_changed_field_is_found(definitions: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Each field of ours in turn, left out and with another value: one of the two tests above must fail."""
    sdk, ours = definitions
    unseen: list[str] = []
    for holder, key, place in fields(ours):
        value = holder.pop(key)
        for other in (ABSENT, "changed"):
            if other is not ABSENT:
                holder[key] = other
            found = list(compare(sdk, ours))
            if all(explaining(each) for each in found) and not unmet(found):
                unseen.append(f"{place}: {other}")
        holder[key] = value
    assert unseen == []


def test_the_changes_that_matter_are_few(definitions: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Of the rows above, only images, the training's start and the registry's spare fields mean something."""
    assert {change.kind for change in differences(*definitions)} == {"image", "argument", "environment", "other"}


def explaining(difference: Found) -> list[Row]:
    return [
        row
        for row in DIFFERENCES
        if re.fullmatch(row.place, difference.place) and (row.sdk, row.ours) == (difference.sdk, difference.ours)
    ]


def unmet(found: list[Found]) -> list[str]:
    """Rows that explain more or fewer places than they say."""
    used = Counter(row.place for each in found for row in explaining(each))
    return [f"{row.place}: {used[row.place]} of {row.count}" for row in DIFFERENCES if used[row.place] != row.count]


def compare(sdk: Any, ours: Any, place: str = "") -> Iterator[Found]:
    """Every field in which two definitions differ; lists are taken by name where their entries have one."""
    one, other = members(sdk), members(ours)
    by_index = isinstance(sdk, list) and isinstance(ours, list) and not (name_in(sdk) or name_in(ours))
    if one is None or other is None or (by_index and len(one) != len(other)):
        if type(sdk) is not type(ours) or sdk != ours:
            yield Found(place, sdk, ours)
        return
    if isinstance(sdk, list) and [name for name in one if name in other] != [name for name in other if name in one]:
        yield Found(f"{place} (order)", list(one), list(other))
    for name in dict.fromkeys((*one, *other)):
        # A step is called by its name wherever it stands; that it stands in this branch is asked of its parent.
        inner = f"Steps.{name}" if place.endswith(("IfSteps", "ElseSteps")) else f"{place}.{name}" if place else name
        if name in one and name in other:
            yield from compare(one[name], other[name], inner)
        else:
            yield Found(inner, one.get(name, ABSENT), other.get(name, ABSENT))


def members(value: Any) -> dict[str, Any] | None:
    """What an object or list holds, by name or number; None of anything else."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        key = name_in(value)
        return {str(entry[key]) if key else str(n): entry for n, entry in enumerate(value)}
    return None


def name_in(entries: list[Any]) -> str | None:
    """The field that names each entry of a list."""
    held = [key for key in NAMES if entries and all(isinstance(entry, dict) and key in entry for entry in entries)]
    return held[0] if held else None


def leaves(value: Any) -> Iterator[Any]:
    inside = members(value)
    if not inside:
        yield value
        return
    for inner in inside.values():
        yield from leaves(inner)


def fields(value: Any, place: str = "") -> Iterator[tuple[dict[str, Any], str, str]]:
    """Every object's every key, with the object."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key, f"{place}.{key}"
            yield from fields(value[key], f"{place}.{key}")
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from fields(inner, f"{place}.{n}")
