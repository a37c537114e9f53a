"""One job without a pipeline: what is set becomes the inputs and parameters of a single step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.components import declaration
from drivetrain.pipelines.cli.submitted import Job, find_component, one_step_pipeline, shipped_components
from drivetrain.pipelines.errors import UserError

COUNTING = '''
from drivetrain.components import Input, Output, component

@component
def count(data: Input, out: Output, *, word: str, times: int = 1, loud: bool = False) -> dict[str, float]:
    """Count a word."""
    found = (data / "words.txt").read_text().split().count(word) * times
    (out / "found.txt").write_text(str(found))
    return {"found": found}
'''
TWO = (
    COUNTING
    + '''
@component
def other(data: Input) -> None:
    """Nothing."""
'''
)


def test_a_job_runs_like_a_pipeline(drivetrain) -> None:
    drivetrain.write("counting.py", COUNTING)
    data = drivetrain.write("words.txt", "a b a")
    home = drivetrain.folder / ".home"
    given = ("--set", f"data={data}", "--set", "word=a", "--set", "times=2", "--home", home)
    text = drivetrain("submit", "counting.py", *given)
    assert "✓ submit-count succeeded" in text and "count: found 4" in text and "Report: " in text
    (place,) = [line.removeprefix("out: ") for line in text.splitlines() if line.startswith("out: ")]
    assert (drivetrain.folder / place / "found.txt").read_text() == "4"
    shown = json.loads(drivetrain("runs", "show", "latest", "--json", "--home", home))
    assert shown["pipeline"] == "submit-count" and shown["results"] == {"count": {"found": 4}}
    assert "count: cached" in drivetrain("submit", "counting.py", *given)
    assert "count: succeeded" in drivetrain("submit", "counting.py", *given, "--no-cache")


def test_a_job_that_fails_fails(drivetrain) -> None:
    drivetrain.write("counting_folders.py", COUNTING)
    (drivetrain.folder / "folder").mkdir()
    (drivetrain.folder / "folder" / "a.txt").touch()
    given = ("-s", "data=folder", "-s", "word=a", "--home", drivetrain.folder / ".home")
    text = drivetrain("submit", "counting_folders.py:count", *given, code=1)
    assert "✗ submit-count failed" in text and "FileNotFoundError" in text


def test_a_uri_has_a_stand_in_here(drivetrain) -> None:
    drivetrain.write("counting_uris.py", COUNTING)
    (drivetrain.folder / "folder").mkdir()
    (drivetrain.folder / "folder" / "words.txt").write_text("a")
    given = ("-s", "data=s3://b/k/", "-s", "word=a", "--home", drivetrain.folder / ".home")
    assert "nothing is there on this machine" in drivetrain.error("submit", "counting_uris.py", *given)
    text = drivetrain("submit", "counting_uris.py", *given, "--data", "s3://b/k/=folder")
    assert "count: found 1" in text


def test_a_training_is_a_job_on_hosts_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("train=s3://b/k/", "recipe=digits_cnn", "epochs=3", "learning-rate=1e-2")
    pipeline, source = one_step_pipeline(
        Job(component="train", given=given, instance="ml.g5.12xlarge", hosts=2, processes=4)
    )
    (step,) = pipeline.steps
    assert (pipeline.name, source) == ("submit-train", None)
    assert dict(step.inputs) == {"train": "s3://b/k/"}  # type: ignore[union-attr]
    assert step.parameters["epochs"] == 3 and step.parameters["learning_rate"] == 0.01  # type: ignore[union-attr]
    cluster = step.cluster  # type: ignore[union-attr]
    assert (cluster.instance_type, cluster.count, cluster.processes) == ("ml.g5.12xlarge", 2, 4)


def test_a_recipe_of_ones_own_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces.py").touch()
    job = Job(component="train", given=("train=s3://b/k/", "recipe=faces"))
    assert one_step_pipeline(job)[1] == tmp_path
    elsewhere = tmp_path / "code"
    elsewhere.mkdir()
    job = Job(component="train", given=job.given, source=elsewhere)
    assert one_step_pipeline(job)[1] == elsewhere


def test_every_component_of_the_package_can_be_submitted() -> None:
    assert {"train", "evaluate", "prepare_data", "register_model"} <= set(shipped_components())
    for name in shipped_components():
        component, source = find_component(name.replace("_", "-"))
        assert isinstance(component, declaration.Component) and source is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No component 'trian'. Did you mean 'train'?"),
        (["train"], "Step 'train' needs the input folder 'train'"),
        (["train", "-s", "train=s3://b/k/", "-s", "epoch=3"], "train does not take it. Did you mean 'epochs'?"),
        (["train", "-s", "train=s3://b/k/", "-s", "epochs=many"], "--set epochs: 'many' is not a whole number"),
        (["train", "-s", "train=s3://b/k/", "-s", "strategy=ddpp"], "no strategy 'ddpp'. Did you mean 'ddp'?"),
        (["train", "-s", "train=nowhere/"], "Input 'nowhere/': no such file or folder"),
        (["train", "-s", "train"], "--set 'train': give NAME=VALUE"),
        (["train", "--source", "nowhere"], "--source nowhere: no such folder"),
        (["train", "--target", "moon"], "local"),
        (["missing.py"], "missing.py. Give an existing .py file"),
    ],
)
def test_bad_input_is_one_message(drivetrain, arguments: list[str], message: str) -> None:
    assert message in drivetrain.error("submit", *arguments)


def test_one_of_several_components_of_a_file(drivetrain) -> None:
    drivetrain.write("two_jobs.py", TWO)
    assert "Allowed: count, other." in drivetrain.error("submit", "two_jobs.py")
    with pytest.raises(UserError, match="Did you mean 'count'"):
        find_component(f"{drivetrain.folder / 'two_jobs.py'}:cuont")


@pytest.mark.slow
def test_a_training_with_auto_runs_here(drivetrain) -> None:
    home = ("--home", drivetrain.home)
    drivetrain("submit", "prepare-data", "-s", "raw=example:digits", "-s", "key=id", "-s", "label=label", *home)
    places = dict(line.split(": ", 1) for line in drivetrain.out.splitlines() if ": " in line)
    given = ("-s", f"train={places['train']}", "-s", "strategy=auto", "-s", "epochs=1", "--processes", "2")
    text = drivetrain("submit", "train", *given, *home)
    assert "✓ submit-train succeeded" in text
    (model,) = [line.removeprefix("model: ") for line in text.splitlines() if line.startswith("model: ")]
    assert Path(model).exists()
    shown = json.loads(drivetrain("runs", "show", "latest", "--json", *home))
    assert shown["steps"][0]["settings"]["strategy"] == "ddp"


def test_a_file_of_values_below_what_is_set(drivetrain) -> None:
    drivetrain.write("counting_config.py", COUNTING)
    data = drivetrain.write("words.txt", "a b a")
    file = drivetrain.write("count.yaml", "word: b\ntimes: 3\nloud: true\n")
    given = ("--config", file, "--set", f"data={data}", "--set", "times=2", "--home", drivetrain.folder / ".home")
    assert "count: found 2" in drivetrain("submit", "counting_config.py", *given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrod: b\n", "wrod: count does not take it. Did you mean 'word'?"),
        ("times: many\n", "times: "),
        ("- word\n", "count.yaml"),
    ],
)
def test_a_file_that_says_nothing_useful(drivetrain, text: str, message: str) -> None:
    module = f"counting_typo_{len(text)}"  # a module is loaded once in a process
    drivetrain.write(f"{module}.py", COUNTING)
    file = drivetrain.write("count.yaml", text)
    printed = drivetrain.error("submit", f"{module}.py", "--config", file, "--set", "data=.")
    assert str(file) in printed and message in printed


def test_options_of_a_file_become_their_text(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("recipe_options: {channels: 4}\nweight_column: w\n")
    job = Job(component="train", given=(f"train={tmp_path}",), config=file)
    (step,) = one_step_pipeline(job)[0].steps
    assert step.parameters["recipe_options"] == '{"channels": 4}'  # type: ignore[union-attr]
    assert step.parameters["weight_column"] == "w"  # type: ignore[union-attr]
