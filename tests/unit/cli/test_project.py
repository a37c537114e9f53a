"""`drivetrain init` writes a project that works, and `drivetrain doctor` says what a machine has."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from drivetrain.authoring.ready import ready_pipelines
from drivetrain.cli.project import doctor
from tests.fixtures.ready import deployable
from tests.unit.cli.conftest import CommandLine

FILES = [
    ".gitignore",
    "AGENTS.md",
    "README.md",
    "customers.csv",
    "pipeline.py",
    "requirements.txt",
    "test_pipeline.py",
]


@pytest.mark.slow
def test_a_new_project_passes_its_own_tests(drivetrain: CommandLine) -> None:
    folder = drivetrain.folder / "customers"
    text = drivetrain("init", folder)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == FILES
    assert text.endswith(f"Try it: cd {folder} && drivetrain run pipeline.py\n")
    # As the user runs them: in the folder, by a pytest that knows nothing of ours.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_new_pipeline_compiles_and_is_drawn(drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = drivetrain.folder / "drawn"
    drivetrain("init", folder)
    renamed = folder / "drawn_customers.py"  # a pipeline file is imported under its own name, once a process
    (folder / "pipeline.py").rename(renamed)
    named = drivetrain("init", drivetrain.folder / "a b")
    assert named.endswith(f"Try it: cd '{drivetrain.folder / 'a b'}' && drivetrain run pipeline.py\n")
    assert json.loads(drivetrain("compile", renamed))["Steps"][0]["Name"] == "split"
    assert "register-model" in drivetrain("show", renamed)


@pytest.mark.parametrize("name", sorted(ready_pipelines()))
def test_a_ready_pipeline_is_copied_with_its_data(name: str, drivetrain: CommandLine) -> None:
    folder = drivetrain.folder / name
    (drivetrain.folder / WHEEL).write_bytes(b"wheel")
    said = drivetrain("init", "--from", name, folder, "--drivetrain", drivetrain.folder / WHEEL)
    assert said.endswith(f"Try it: cd {folder} && drivetrain run pipeline.py\n")
    pipeline = (folder / "pipeline.py").read_text()
    assert "drivetrain run pipeline.py" in pipeline and "example:" not in pipeline.partition("def ")[2]
    assert len(ci_of(folder)[1]) > 2, "CI installs what the steps need"
    compile((folder / "test_pipeline.py").read_text(), "test_pipeline.py", "exec")
    renamed = folder / f"own_{name}.py"
    (folder / "pipeline.py").rename(renamed)
    options = [word for override in deployable(name) for word in ("--set", override)]
    assert definition_of(drivetrain("compile", renamed, *options)) == definition_of(
        drivetrain("compile", name, *options)
    )


def definition_of(text: str) -> str:
    """Without hashes: of a pipeline of one's own other code travels."""
    return re.sub(r"[0-9a-f]{64}|own_|\.py", "", text)


def test_ready_pipelines_are_listed_where_no_name_is_right(drivetrain: CommandLine) -> None:
    assert "churn " in drivetrain("init", "--from")
    listed = json.loads(drivetrain("init", "--from", "--json"))
    assert {each["pipeline"]: each["description"] for each in listed} == ready_pipelines()
    drivetrain("init", "--from", "chrun", drivetrain.folder / "new", code=2)
    error = drivetrain.err
    assert error.endswith("error: No ready pipeline 'chrun'. Did you mean 'churn'? Give one of those above.\n")
    assert all(f"\n{name} " in error for name in ready_pipelines()) and not (drivetrain.folder / "new").exists()


WHEEL = "drivetrain-0.1.0-py3-none-any.whl"
ADDRESSES = (
    f"https://host/simple/{WHEEL}#sha256={'a1' * 32}",
    f"git+https://host/drivetrain@{'a1' * 20}",
    f"git+ssh://git@host/drivetrain.git@{'a1' * 20}",
)


def ci_of(folder: Path) -> tuple[str, list[str]]:
    """The workflow of a new project, and the lines of its requirements."""
    workflow = (folder / ".github" / "workflows" / "pipeline.yml").read_text()
    return workflow, (folder / "requirements.txt").read_text().splitlines()[1:]


def test_ci_installs_named_packages(drivetrain: CommandLine) -> None:
    """Anybody may take a name that is not on PyPI, and their program would run in the user's CI."""
    (drivetrain.folder / WHEEL).write_bytes(b"wheel")
    drivetrain("init", drivetrain.folder / "of-wheel", "--drivetrain", drivetrain.folder / WHEEL)
    workflow, lines = ci_of(drivetrain.folder / "of-wheel")
    assert lines == [f"./wheels/{WHEEL}", "pytest==9.2.0"]
    assert lines[1] in (Path(__file__).parents[3] / "constraints.txt").read_text().splitlines()
    assert (drivetrain.folder / "of-wheel" / "wheels" / WHEEL).read_bytes() == b"wheel"
    ci = yaml.safe_load(workflow)
    assert ci["permissions"] == {"contents": "read"}
    steps = ci["jobs"]["test"]["steps"]
    assert all(re.search("@[0-9a-f]{40}$", step["uses"]) for step in steps if "uses" in step)
    assert next(step["run"] for step in steps if "run" in step) == "pip install -r requirements.txt"
    for number, address in enumerate(ADDRESSES):
        drivetrain("init", drivetrain.folder / f"of-{number}", "--drivetrain", f"drivetrain @ {address}")
        assert ci_of(drivetrain.folder / f"of-{number}")[1][0] == f"drivetrain @ {address}"


@pytest.mark.parametrize(
    "source",
    [
        "drivetrain",
        "drivetrain==0.1.0",
        f"https://host/{WHEEL}",
        "git+https://host/drivetrain@main",
        "other-1.whl",
        WHEEL,
    ],
)
def test_files_that_others_could_replace_are_refused(drivetrain: CommandLine, source: str) -> None:
    error = drivetrain.error("init", drivetrain.folder / "new", "--drivetrain", source)
    assert "Allowed: a file drivetrain-VERSION-....whl" in error
    assert not (drivetrain.folder / "new").exists()


@pytest.mark.parametrize(
    ("installed", "line"),
    [
        ({"url": ADDRESSES[0].partition("#")[0], "archive_info": {"hashes": {"sha256": "a1" * 32}}}, ADDRESSES[0]),
        ({"url": "https://host/drivetrain", "vcs_info": {"vcs": "git", "commit_id": "a1" * 20}}, ADDRESSES[1]),
        ({"url": "file:///somewhere", "dir_info": {"editable": True}}, None),
        ({}, None),
    ],
)
def test_ci_installs_the_local_versions(
    drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch, installed: dict[str, object], line: str | None
) -> None:
    monkeypatch.setattr(
        "importlib.metadata.distribution", lambda _: SimpleNamespace(read_text=lambda _: json.dumps(installed))
    )
    said = drivetrain("init", drivetrain.folder / "new")
    assert ("No CI: " in said and "Give --drivetrain" in said) == (line is None)
    assert (drivetrain.folder / "new" / ".github").exists() == (line is not None)
    if line is not None:
        assert ci_of(drivetrain.folder / "new")[1][0] == f"drivetrain @ {line}"
    else:
        drivetrain("init", "--from", "churn", drivetrain.folder / "churn")
        lines = (drivetrain.folder / "churn/requirements.txt").read_text().splitlines()
        assert "from your checkout" in lines[1] and any(each.startswith("xgboost") for each in lines)


def test_json_output_lists_written_files(drivetrain: CommandLine) -> None:
    said = json.loads(drivetrain("init", drivetrain.folder / "scripted", "--json"))
    assert said["folder"] == str(drivetrain.folder / "scripted") and "pipeline.py" in said["files"]


def test_nothing_is_overwritten(drivetrain: CommandLine) -> None:
    (drivetrain.folder / "mine").mkdir()
    (drivetrain.folder / "mine" / "pipeline.py").write_text("mine")
    error = drivetrain.error("init", drivetrain.folder / "mine")
    assert "has pipeline.py already" in error
    assert [path.name for path in (drivetrain.folder / "mine").iterdir()] == ["pipeline.py"]
    drivetrain.write("file", "x")
    assert "Give another folder" in drivetrain.error("init", drivetrain.folder / "file" / "inner")


def test_the_doctor_lists_installed_parts(drivetrain: CommandLine) -> None:
    found = {each["name"]: each for each in json.loads(drivetrain("doctor", "--home", drivetrain.home, "--json"))}
    assert found["torch"]["state"] == "ok" and importlib.metadata.version("torch") in found["torch"]["found"]
    assert str(drivetrain.home) in found["home"]["found"] and "GiB free" in found["home"]["found"]
    assert not drivetrain.home.exists()  # it looks, and makes nothing
    text = drivetrain("doctor", "--home", drivetrain.home)
    assert text.startswith("WHAT") and "✓ drivetrain" in text


def test_missing_parts_are_reported_with_what_to_do(drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "boto3":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1024**3))
    text = drivetrain("doctor", "--home", drivetrain.home)
    assert "pip install 'drivetrain[s3]'" in text and "Models and checkpoints need room" in text


def test_a_home_that_cannot_be_written_is_wrong(drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot be written. Give another folder" in drivetrain("doctor", "--home", drivetrain.home, code=1)


@pytest.mark.parametrize(
    ("program", "state", "found"),
    [
        ("echo 'NVIDIA H100'; echo 'NVIDIA H100'", "ok", "2 x NVIDIA H100"),
        (
            "echo mismatch; exit 18",
            "note",
            "nvidia-smi fails: mismatch",
        ),
    ],
)
def test_gpus(program: str, state: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (gpu,) = [each for each in doctor.findings(tmp_path) if each.name == "GPU"]
    assert (gpu.state, gpu.found) == (state, found)


@pytest.mark.parametrize(("allowed", "state"), [("pid", "ok"), ("mounts", "ok"), ("none", "note")])
def test_isolation(allowed: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.processes import mounts

    monkeypatch.setattr(mounts, "isolation", lambda: allowed)
    (isolation,) = [each for each in doctor.findings(tmp_path) if each.name == "isolation"]
    assert isolation.state == state and bool(isolation.advice) is (state == "note")


def test_credentials_are_looked_for_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)

    def aws() -> doctor.Finding:
        return next(each for each in doctor.findings(tmp_path) if each.name == "AWS")

    assert aws().state == "note"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\n")
    assert aws().found == "credentials by ~/.aws/credentials"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert aws().found == "credentials by AWS_ACCESS_KEY_ID, region eu-west-1"
