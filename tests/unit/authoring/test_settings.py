"""Settings: four sources, one winner, and a clear word about what does not fit."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from pydantic import BaseModel, Field, field_validator

from drivetrain import Settings, SpecError, UserError
from drivetrain.authoring.plain_yaml import read_yaml
from drivetrain.authoring.settings import build
from drivetrain.base.errors import Notice
from drivetrain.targets.sagemaker.settings import settings_of


class Example(Settings):
    epochs: int = 10
    rate: float = 0.1
    name: str = "a"
    fast: bool = False
    must: str


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "settings.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_later_sources_win(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "must: file\nepochs: 20\nrate: 0.2\ndeployment:\n  targets: {sagemaker: {bucket: my-bucket, prefix: x}}\n",
    )
    environment = {
        "DRIVETRAIN_RATE": "0.3",
        "DRIVETRAIN_EPOCHS": "30",
        "DRIVETRAIN_DEPLOYMENT__TARGETS__SAGEMAKER__PREFIX": "y",
        "DRIVETRAIN_HOME": "/elsewhere",
        "DRIVETRAIN_SOMETHING_ELSE": "1",
    }
    built = build(Example, file, ["epochs=40", "fast=true"], environment)
    assert (built.must, built.epochs, built.rate, built.fast) == ("file", 40, 0.3, True)
    place = settings_of(built.deployment)
    assert (place.bucket, place.prefix) == ("my-bucket", "y")


def test_a_misspelt_settings_variable_gives_a_warning() -> None:
    with pytest.warns(Notice, match=r"DRIVETRAIN_EPOCS is ignored.* Did you mean DRIVETRAIN_EPOCHS\?"):
        build(Example, given={"must": "x"}, environment={"DRIVETRAIN_EPOCS": "3"})
    with pytest.warns(Notice, match="mean DRIVETRAIN_DEPLOYMENT__REGION"):
        build(Example, given={"must": "x"}, environment={"DRIVETRAIN_DEPLOYMNT__REGION": "eu-west-1"})


@pytest.mark.parametrize("name", ["EPOCHS", "HOME", "REGISTRY", "SOMETHING_ELSE", "MASK", "TASK", "UNPACKED"])
def test_other_variables_give_no_warning(name: str, recwarn: pytest.WarningsRecorder) -> None:
    class Near(Example):
        hom: int = 1
        tasks: int = 1
        masks: int = 1

    build(Near, given={"must": "x"}, environment={f"DRIVETRAIN_{name}": "1"})
    assert not [each for each in recwarn if each.category is Notice]


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("epoch: 3\nmust: x\n", [], r"Setting epoch \(from .*settings.yaml\) does not exist. Did you mean 'epochs'"),
        ("must: x\n", ["epocs=3"], r"Setting epocs \(from --set\) does not exist. Did you mean 'epochs'"),
        ("must: x\nepochs: many\n", [], r"Setting epochs \(from .*\) is 'many': give a whole number"),
        ("must: x\ndeployment:\n  projct: y\n", [], "Did you mean 'project'"),
        ("must: x\ndeployment: {namespace: a}\n", [], r"of its target: deployment\.targets\.kubeflow\.namespace"),
        ("must: x\ndeployment: {kubeflow: {namespace: a}}\n", [], r"of its target: deployment\.targets\.kubeflow"),
        ("must: x\n", ["deployment.kubeflow.root=a"], r"of its target: deployment\.targets\.kubeflow"),
        ("epochs: 3\n", [], "Setting must is required"),
        ("must: x\n", ["epochs"], "give key=value"),
        ("must: x\n", ["epochs.=3"], "give key=value"),
        ("must: [x\n", [], "line 2, column 1: not YAML"),
        ("- a\n- b\n", [], "must be `key: value` lines"),
        ("must: x\nmust: y\n", [], "line 2: 'must' is given twice"),
        ("must: !!python/object/apply:os.system [echo]\n", [], "tags are not allowed"),
        (f"must: x\nepochs: 1{':59' * 3000}\n", [], "is '1:59:59.*give a whole number"),
        (f"must: x\nepochs: 0x{'f' * 5000}\n", [], "a number of 20,000 bits"),
        ("must: x\n", [f"epochs=0b{'1' * 5000}"], "a number of 5,000 bits"),
        ("must: &a x\nname: *a\n", [], "anchors and aliases are not allowed"),
        (b"must: \xff\n", [], "is not UTF-8"),
        ("must: x\nname: " + "[" * 60 + "]" * 60 + "\n", [], "nested deeper than 50"),
        ("must: x\n#" + "x" * 2**20 + "\n", [], "Allowed: 1,048,576 bytes"),
        ("? [1, 2]\n: x\n", [], "line 1: a list or mapping cannot be a key"),
        ("must: 2026-13-45\n", [], r"month must be in 1\.\.12\. Put text in quotes"),
        ("must: x\nepochs: " + "9" * 5000 + "\n", [], r"Exceeds the limit .* Put text in quotes"),
        ("must: 2026-11-20\n", [], r"Setting must .* is datetime\.date.*\. Put it in quotes"),
        ("must: x\nrate: .nan\n", [], "Setting rate .* is nan: Input should be a finite number"),
        ("must: x\nrate: 0,9\n", [], r"is '0,9': give a number\. Write 0\.9, with a decimal point\. \(line 2\)$"),
        ("must: x\n\nepochs: many\n", [], r"is 'many': give a whole number\. \(line 3\)$"),
        ("must: x\n", ["rate=0,9"], r"\(from --set\) is '0,9': give a number\. Write 0\.9, with a decimal point\.$"),
        ("must: x\nepochs: yes\n", [], r"Setting epochs \(from .*\) is True: give a number\. YAML reads yes"),
        ("must: x\n", ["rate=on"], r"Setting rate \(from --set\) is True: give a number"),
        ("must: x\ndeployment:\n\ttarget: a\n", [], "Indent with spaces, not with tabs"),
        ("must: x\n", ["name=!!python/name:os.system"], "tags are not allowed"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, text: str | bytes, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        build(Example, write(tmp_path, text), overrides, {})
    assert len(str(caught.value).splitlines()) == 1


def test_human_number_formats_are_read(tmp_path: Path) -> None:
    built = build(Example, write(tmp_path, "must: x\nepochs: 010\nrate: 1e-3\nfast: yes\n"), [], {})
    assert (built.epochs, built.rate, built.fast) == (10, 0.001, True)
    assert build(Example, write(tmp_path, b"\xef\xbb\xbfmust: 010\nepochs: 3.0\n"), [], {}).must == "010"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.yaml: No such file"):
        read_yaml(tmp_path / "nowhere.yaml")


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(UserError, match="/dev/zero is too large"):
        read_yaml(Path("/dev/zero"))


def test_yaml_bombs_are_refused_at_once(tmp_path: Path) -> None:
    aliases = "a: &a [x,x]\n" + "".join(f"b{i}: &b{i} [*a,*a]\n" for i in range(40))
    deep = "a: " + "[" * 200_000
    started = time.process_time()
    for text in (aliases, deep):
        with pytest.raises(UserError):
            read_yaml(write(tmp_path, text))
    assert time.process_time() - started < 5


def test_an_empty_file_has_no_settings(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "# nothing\n")) == {}
    assert read_yaml(write(tmp_path, "null\n")) == {}  # to YAML the same


@pytest.mark.parametrize("text", ["12:30", "1:59:59.5", "-1:00", "0:30"])
def test_a_time_of_day_is_a_text(tmp_path: Path, text: str) -> None:
    assert read_yaml(write(tmp_path, f"at: {text}\nnumber: 12_300\nshare: -1.5e+3\n")) == {
        "at": text,
        "number": 12_300,
        "share": -1500.0,
    }


class Nested(Settings):
    options: str = "{}"
    note: str | None = None
    names: tuple[str, ...] = ()
    epochs: int = 1


@pytest.mark.parametrize("text", ['{"tensor": 2}', "{}", "[1, 2]", "2026-11-20", "12:30", "7", "true", "1e3"])
def test_a_text_field_keeps_the_typed_text(text: str) -> None:
    assert build(Nested, None, [f"options={text}"], {}).options == text
    assert build(Nested, None, [], {"DRIVETRAIN_OPTIONS": text}).options == text
    assert build(Nested, None, [f"note={text}"], {}).note == text


def test_other_fields_and_plain_text_are_read_as_before() -> None:
    built = build(Nested, None, ["options='{}'", "note=null", "names=[a, b]", "epochs=3"], {})
    assert (built.options, built.note, built.names, built.epochs) == ("{}", None, ("a", "b"), 3)
    assert build(Nested, None, ["deployment.targets.sagemaker.bucket=123"], {}).deployment.targets == {
        "sagemaker": {"bucket": "123"}
    }


def test_options_of_a_file_become_their_text(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "options:\n  tensor: 2\n  split: [1, 2]\nnames: [a]\ndeployment: {targets: {sagemaker: {bucket: my-bucket}}}\n",
    )
    built = build(Nested, file, [], {})
    assert json.loads(built.options) == {"tensor": 2, "split": [1, 2]}
    assert (built.names, settings_of(built.deployment).bucket) == (("a",), "my-bucket")


class Inner(BaseModel):
    depth: int = 3

    @field_validator("depth")
    @classmethod
    def _shallow(cls, depth: int) -> int:
        if depth > 10:
            raise ValueError("give 10 at most.")
        return depth


class Renamed(BaseModel):
    depth: int = Field(3, alias="tiefe")


class Outer(Settings):
    inner: Inner = Inner()
    maybe: Inner | None = None
    many: list[Inner] = Field(default_factory=list)
    renamed: Renamed = Renamed()
    loose: dict[str, int] | Inner = Inner()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("inner.dept=5", "Setting inner.dept (from --set) does not exist. Did you mean 'depth'?"),
        ("maybe.dept=5", "Setting maybe.dept (from --set) does not exist."),
        ("many=[{dept: 5}]", "Setting many.dept (from --set) does not exist."),
        ("inner.depth=50", "Setting inner.depth (from --set) is 50: give 10 at most."),
    ],
)
def test_a_wrong_field_of_a_plain_model_is_named(override: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        build(Outer, None, [override], {})


def test_right_fields_of_plain_models_are_taken() -> None:
    given = ["inner.depth=5", "maybe.depth=6", "many=[{depth: 7}]", "renamed.tiefe=8", "loose.any=9"]
    built = build(Outer, None, given, {})
    assert (built.inner.depth, built.maybe, built.many) == (5, Inner(depth=6), [Inner(depth=7)])
    assert (built.renamed.depth, built.loose) == (8, {"any": 9})


def test_a_setting_cannot_take_a_reserved_name() -> None:
    with pytest.raises(SpecError, match=r"Mine\.local is <class 'bool'>, but every .* Give the field another name"):

        class Mine(Settings):
            local: bool = True  # type: ignore[assignment]


class Hidden(Settings):
    api_key: int = 0


@pytest.mark.parametrize("given", ["canary-1234", "[canary-1234]", "{a: canary-1234}"])
def test_a_secret_value_is_not_shown(given: str) -> None:
    with pytest.raises(UserError, match=r"Setting api_key \(from --set\) is not of the right kind: ") as caught:
        build(Hidden, None, [f"api_key={given}"], {})
    assert "canary" not in str(caught.value)
