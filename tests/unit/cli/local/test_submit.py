"""One job without a pipeline: what is set becomes the inputs and parameters of a single step."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.local.job import Job
from drivetrain.cli.local.submitted import (
    LAUNCHER_VARIABLES,
    find_component,
    one_step_pipeline,
    shipped_components,
)
from drivetrain.data.manifest import Manifest
from drivetrain.steps import declaration
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document.step_types import key_fields, key_of

COUNTING = '''
from drivetrain.components import Input, Output, component

@component
def count(data: Input, out: Output, *, word: str, times: int = 1, loud: bool = False) -> dict[str, float]:
    """Count a word."""
    found = (data / "words.txt").read_text().split().count(word) * times
    if times > 1:
        print("warning: each word counts twice or more", flush=True)
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
    warning = "warning: each word counts twice or more"
    assert re.search(rf"count: succeeded in .*: {warning}\n", text)
    (report,) = [line.removeprefix("Report: ") for line in text.splitlines() if line.startswith("Report: ")]
    assert warning in (drivetrain.folder / report).read_text()
    shown = json.loads(drivetrain("runs", "show", "latest", "--json", "--home", home))
    assert shown["pipeline"] == "submit-count" and shown["results"] == {"count": {"found": 4}}
    cached = drivetrain("submit", "counting.py", *given)
    assert "count: cached" in cached and warning in cached
    assert "count: succeeded" in drivetrain("submit", "counting.py", *given, "--no-cache")


def test_outputs_are_copied_to_the_given_folder(drivetrain) -> None:
    drivetrain.write("counting_out.py", COUNTING)
    data = drivetrain.write("words.txt", "a b a")
    home = drivetrain.folder / ".home"
    given = ("submit", "counting_out.py", "-s", f"data={data}", "--home", home, "--out", "build")
    assert f"out: {Path('build/out')}" in drivetrain(*given, "-s", "word=a")
    assert (drivetrain.folder / "build/out/found.txt").read_text() == "2"
    drivetrain(*given, "-s", "word=b")
    assert (drivetrain.folder / "build/out/found.txt").read_text() == "1"
    cached = drivetrain(*given, "-s", "word=a")
    assert "count: cached" in cached and "out: " in cached
    assert (drivetrain.folder / "build/out/found.txt").read_text() == "2"
    assert [path.name for path in (drivetrain.folder / "build/out").iterdir()] == ["found.txt"]


def test_files_of_others_are_not_mixed_into_an_output(drivetrain) -> None:
    drivetrain.write("counting_foreign.py", COUNTING)
    data = drivetrain.write("words.txt", "a")
    (drivetrain.folder / "build/out").mkdir(parents=True)
    (drivetrain.folder / "build/out/part-7").write_text("mine")
    given = ("-s", f"data={data}", "-s", "word=a", "--home", drivetrain.folder / ".home")
    assert "holds part-7, which is no part" in drivetrain.error(
        "submit", "counting_foreign.py", *given, "--out", "build"
    )
    assert [path.name for path in (drivetrain.folder / "build/out").iterdir()] == ["part-7"]
    assert "Not a directory" in drivetrain.error("submit", "counting_foreign.py", *given, "--out", data)
    assert "starts: execution" not in drivetrain.out  # it was seen before the job ran


def test_versions_are_kept_in_their_folder(drivetrain) -> None:
    given = ("submit", "prepare-data", "-s", "raw=raw.csv", "-s", "key=id", "-s", "keep_versions=3")
    assert "Give --out DIR, or leave keep_versions out" in drivetrain.error(*given, "--home", drivetrain.folder / "h")
    assert not (drivetrain.folder / "h").exists()


@pytest.mark.slow
def test_prepared_data_keeps_its_versions(drivetrain) -> None:
    given = ("submit", "prepare-data", "-s", "raw=raw.csv", "-s", "key=id", "--home", drivetrain.folder / ".home")
    given = (*given, "-s", "validation_percent=0", "-s", "test_percent=0", "-s", "keep_versions=2", "--out", "build")
    versions: list[str] = []
    for rows in range(100, 104):
        drivetrain.write("raw.csv", "id,x\n" + "".join(f"{row},{row}\n" for row in range(rows)))
        drivetrain(*given)
        versions.append(Manifest.read(drivetrain.folder / "build/train").version)
        there = {path.name for path in (drivetrain.folder / "build/train").iterdir()}
        assert there == {"manifest.json", *versions[-3:]} and len(set(versions)) == len(versions)


def test_given_variables_reach_the_job(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    drivetrain.write(
        "variables.py",
        "import os\nfrom drivetrain.components import Output, component\n\n@component\n"
        "def tell(out: Output) -> None:\n"
        "    found = {key: value for key, value in os.environ.items() if key.startswith(('DRIVETRAIN_M', 'MINE'))}\n"
        "    (out / 'found.txt').write_text(str(sorted(found.items())))\n",
    )
    monkeypatch.setenv("DRIVETRAIN_MAX_RESTARTS", "3")
    given = ("submit", "variables.py", "--home", drivetrain.folder / ".home", "--out", "build")
    found = drivetrain.folder / "build/out/found.txt"
    drivetrain(*given)
    assert found.read_text() == "[]"
    assert "give it with --env DRIVETRAIN_MAX_RESTARTS=3" in drivetrain.err
    drivetrain(*given, "--env", "DRIVETRAIN_MAX_RESTARTS=2", "--env", "MINE=a=b")
    assert found.read_text() == "[('DRIVETRAIN_MAX_RESTARTS', '2'), ('MINE', 'a=b')]"
    assert drivetrain.err == ""


def test_launcher_variables_match_its_options() -> None:
    text = (Path(__file__).parents[4] / "docs/launcher.md").read_text(encoding="utf-8")
    options = text.partition("## Options")[2].partition("\n## ")[0]
    named = {name.replace("-", "_").upper() for name in re.findall(r"`--([a-z-]+)(?: [A-Z:]+)?`", options)}
    assert "MAX_RESTARTS" in named
    expected = {f"DRIVETRAIN_{'NETWORK_INTERFACE' if name == 'INTERFACE' else name}" for name in named}
    assert expected == LAUNCHER_VARIABLES


def test_help_lists_settings(drivetrain) -> None:
    text = " ".join(drivetrain("submit", "train", "--help").split())
    assert text.startswith("Usage: drivetrain submit [OPTIONS] train --set NAME=VALUE ... Run one component")
    component, _ = find_component("train")
    for name in (*component.inputs, *component.parameters):
        assert f" {name}=" in text
    assert "learning_rate=FLOAT the highest learning rate" in text
    assert "drivetrain submit train --help" in " ".join(drivetrain("submit", "-h").split())
    assert "epochs=" not in drivetrain.out
    drivetrain.write("counting_help.py", COUNTING)
    assert "word=STR" in drivetrain("submit", "--config", "x.yaml", "counting_help.py", "--help")


def test_a_job_that_fails_fails(drivetrain) -> None:
    drivetrain.write("counting_folders.py", COUNTING)
    (drivetrain.folder / "folder").mkdir()
    (drivetrain.folder / "folder" / "a.txt").touch()
    given = ("-s", "data=folder", "-s", "word=a", "--home", drivetrain.folder / ".home")
    text = drivetrain("submit", "counting_folders.py:count", *given, code=1)
    assert "✗ submit-count failed" in text and "FileNotFoundError" in text


def test_a_job_with_an_absolute_path_runs_each_time_with_a_warning(drivetrain) -> None:
    data = drivetrain.write("two numbers.txt", "1")
    drivetrain.write(
        "looking.py",
        "from drivetrain.components import component\n\n@component\ndef look() -> dict[str, float]:\n"
        f"    return {{'n': float(open({str(data)!r}).read())}}\n",
    )
    for text in ("1", "2"):
        data.write_text(text)
        assert f"look: n {text}" in drivetrain("submit", "looking.py", "--home", drivetrain.home)
        assert drivetrain.err == (
            f"warning: looking.py, line 5: step 'look' names {data}, which no deployed job has. The cache sees no "
            "change of it, so the step runs each time. Make it an input: data: Input in look(), and --set "
            f"data='{data}'.\n"
        )


@pytest.mark.parametrize("line", ["import no_such_module", '"""Fit."""; from no_such_module.part import x'])
def test_imports_of_a_small_job_are_checked_before_it_starts(drivetrain, line: str) -> None:
    file = f"lacking_{len(line)}.py"
    drivetrain.write(file, f"from drivetrain.components import component\n\n@component\ndef fit() -> None: {line}\n")
    said = drivetrain.error("submit", file, "--home", drivetrain.folder / "h")
    assert f"step 'fit' needs what is not installed here (no_such_module is imported by {file}, line 4)" in said
    assert not (drivetrain.folder / "h").exists()


def test_a_uri_can_be_replaced_by_local_data(drivetrain) -> None:
    drivetrain.write("counting_uris.py", COUNTING)
    (drivetrain.folder / "folder").mkdir()
    (drivetrain.folder / "folder" / "words.txt").write_text("a")
    given = ("-s", "data=s3://b/k/", "-s", "word=a", "--home", drivetrain.folder / ".home")
    assert "nothing is there on this machine" in drivetrain.error("submit", "counting_uris.py", *given)
    text = drivetrain("submit", "counting_uris.py", *given, "--data", "s3://b/k/=folder")
    assert "count: found 1" in text


def test_a_training_is_a_job_on_hosts_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["train=s3://b/k/", "recipe=digits_cnn", "epochs=3", "learning-rate=1e-2"]
    pipeline, source = one_step_pipeline(
        Job(component="train", set_=given, instance="ml.g5.12xlarge", hosts=2, processes=4)
    )
    (step,) = pipeline.steps
    assert (pipeline.name, source) == ("submit-train", None)
    assert dict(step.inputs) == {"train": "s3://b/k/"}  # type: ignore[union-attr]
    assert step.parameters["epochs"] == 3 and step.parameters["learning_rate"] == 0.01  # type: ignore[union-attr]
    cluster = step.cluster  # type: ignore[union-attr]
    assert (cluster.instance_type, cluster.count, cluster.processes) == ("ml.g5.12xlarge", 2, 4)


def test_the_number_of_hosts_is_part_of_the_cache_key() -> None:
    def key(hosts: int, *environment: str) -> str:
        job = Job(component="train", set_=["train=s3://b/k/", "recipe=digits_cnn"], hosts=hosts, env=list(environment))
        (step,) = compile_pipeline(one_step_pipeline(job)[0]).definition["Steps"]
        fields = key_fields("Training", step["Arguments"])
        assert fields is not None
        return key_of("Training", fields)

    assert len({key(1), key(2), key(3)}) == 3
    assert key(2, "DRIVETRAIN_NODES=1:2") not in (key(1), key(2))


def test_a_users_recipe_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces.py").touch()
    job = Job(component="train", set_=["train=s3://b/k/", "recipe=faces"])
    assert one_step_pipeline(job)[1] == tmp_path
    elsewhere = tmp_path / "code"
    elsewhere.mkdir()
    job = Job(component="train", set_=job.set_, source=elsewhere)
    assert one_step_pipeline(job)[1] == elsewhere


def test_a_script_in_the_current_folder_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    job = Job(component="train-script", set_=["train=data", "script=train.py"])
    assert one_step_pipeline(job)[1] == tmp_path
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert one_step_pipeline(replace(job, source=elsewhere))[1] == elsewhere
    monkeypatch.chdir(elsewhere)
    with pytest.raises(UserError, match=r"--set script=train.py: no such file in .*/elsewhere\. .* --source DIR"):
        one_step_pipeline(job)


def test_paths_are_relative_to_where_they_are_written(drivetrain) -> None:
    for folder, words in (("../beside", "a a"), ("mine", "a"), ("settings", "")):
        (drivetrain.folder / folder).mkdir()
        (drivetrain.folder / folder / "words.txt").write_text(words)
    drivetrain.write("settings/values.yaml", "data: ../mine\n")
    drivetrain.write("counting.py", COUNTING)
    for given, found in ((("-s", "data=../beside"), "2"), (("-c", "settings/values.yaml"), "1")):
        words = ("submit", "counting.py", *given, "-s", "word=a", "--home", drivetrain.home, "--out", f"out{found}")
        drivetrain(*words)
        assert (drivetrain.folder / f"out{found}/out/found.txt").read_text() == found


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
        (["train", "-s", "train=s3://b/k/", "--env", "A"], "--env 'A': give NAME=VALUE"),
        (["train", "-s", "train=s3://b/k/", "--env", "A B=1"], "--env A B: not the name of a variable"),
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


def test_options_override_a_file_of_values(drivetrain) -> None:
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
def test_a_useless_file_of_values_is_refused(drivetrain, text: str, message: str) -> None:
    module = f"counting_typo_{len(text)}"  # a module is loaded once in a process
    drivetrain.write(f"{module}.py", COUNTING)
    file = drivetrain.write("count.yaml", text)
    printed = drivetrain.error("submit", f"{module}.py", "--config", file, "--set", "data=.")
    assert str(file) in printed and message in printed


def test_options_of_a_file_become_their_text(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("recipe_options: {channels: 4}\nweight_column: w\n")
    job = Job(component="train", set_=[f"train={tmp_path}"], config=file)
    (step,) = one_step_pipeline(job)[0].steps
    assert step.parameters["recipe_options"] == '{"channels": 4}'  # type: ignore[union-attr]
    assert step.parameters["weight_column"] == "w"  # type: ignore[union-attr]
