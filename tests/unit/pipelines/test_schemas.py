"""The schemas take what the package takes, and refuse what it refuses."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from drivetrain.pipelines.cli import main
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.plain_yaml import read_yaml
from drivetrain.pipelines.ready.retraining import Retraining
from drivetrain.pipelines.schemas import definition_schema, settings_schema
from drivetrain.pipelines.settings import build


@pytest.fixture(scope="module")
def of_definitions() -> Draft202012Validator:
    made = definition_schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    from drivetrain.pipelines.cli.targets import compiled

    return json.loads(compiled("retraining", None, ["spot=true"], local=True).text)


def places(validator: Draft202012Validator, value: Any) -> set[str]:
    """Where a value breaks the schema, down to the deepest error of each."""
    found: set[str] = set()
    pending = list(validator.iter_errors(value))
    while pending:
        error = pending.pop()
        found.add(".".join(map(str, error.absolute_path)))
        pending += error.context or []
    return found


def test_a_compiled_pipeline_is_of_the_schema(of_definitions: Draft202012Validator, compiled: dict[str, Any]) -> None:
    assert places(of_definitions, compiled) == set()


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("Steps", 1, "Arguments", "ResourceConfig", "InstanceCount"), "two", "Steps.1.Arguments.ResourceConfig"),
        (("Steps", 1, "Arguments", "ResourceConfig", "InstanceType"), "ml.huge", "Steps.1.Arguments.ResourceConfig"),
        (("Steps", 1, "Arguments", "Unheard"), 1, "Steps.1.Arguments"),
        (("Steps", 1, "Name"), "with space", "Steps.1.Name"),
        (("Steps", 4, "Arguments", "Conditions"), [], "Steps.4.Arguments.Conditions"),
        (("Steps", 4, "Arguments", "IfSteps", 0, "Name"), 5, "Steps.4.Arguments.IfSteps.0.Name"),
        (("Parameters", 0, "Type"), "Number", "Parameters.0.Type"),
        (("Steps",), None, "Steps"),
    ],
)
def test_a_mistake_is_found_where_it_is(
    of_definitions: Draft202012Validator, compiled: dict[str, Any], path: tuple[Any, ...], value: Any, place: str
) -> None:
    wrong = copy.deepcopy(compiled)
    inner: Any = wrong
    for segment in path[:-1]:
        inner = inner[segment]
    inner[path[-1]] = value
    assert any(found.startswith(place) for found in places(of_definitions, wrong))


def test_a_reference_may_stand_anywhere(of_definitions: Draft202012Validator, compiled: dict[str, Any]) -> None:
    with_reference = copy.deepcopy(compiled)
    resources = with_reference["Steps"][1]["Arguments"]["ResourceConfig"]
    resources["InstanceCount"] = {"Get": "Parameters.InstanceCount"}
    assert places(of_definitions, with_reference) == set()
    resources["InstanceCount"] = {"Got": "Parameters.InstanceCount"}
    assert places(of_definitions, with_reference) != set()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("epochs: 3\nlearning_rate: 0.1\nspot: true\n", True),
        ("strategy_options: {tensor: 2}\n", True),
        ("deployment:\n  region: eu-west-1\n  tags: {team: a}\n", True),
        ("local:\n  stubs: {train: out.json}\n", True),
        ("epoch: 3\n", False),
        ("epochs: many\n", False),
        ("deployment:\n  region: Mars\n", False),
        ("deployment:\n  regions: eu-west-1\n", False),
    ],
)
def test_settings_are_of_the_schema_when_they_can_be_built(text: str, right: bool, tmp_path: Path) -> None:
    made = settings_schema(Retraining)
    Draft202012Validator.check_schema(made)
    file = tmp_path / "retraining.yaml"
    file.write_text(text)
    assert Draft202012Validator(made).is_valid(read_yaml(file)) == right
    try:
        built = build(Retraining, file, (), {})
    except UserError:
        built = None
    assert (built is not None) == right


def test_the_command_writes_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["schema", "retraining", "-o", "s.json"]) == 0
    described = json.loads(Path("s.json").read_text())["properties"]["dataset"]
    assert described["description"].startswith("A file or folder of CSV")
    assert main.run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "SageMaker pipeline definition"
    Path("bare_one.py").write_text(
        "from drivetrain.pipelines import Pipeline, fail\n\n\n"
        "def bare() -> Pipeline:\n    return Pipeline(name='bare', steps=[fail('no', name='stop')])\n"
    )
    assert main.run(["schema", "bare_one.py"]) == 2
    assert "takes no settings" in capsys.readouterr().err
