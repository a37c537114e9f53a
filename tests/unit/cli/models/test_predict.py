"""`drivetrain models predict`: which version answers, whether it is the one that was registered, and what is shown."""

from __future__ import annotations

import csv
import fcntl
import importlib.util
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli.models.predict import _answer as answer
from drivetrain.processes.supervised import DEFAULTS, INHERITED
from drivetrain.registry import artifacts
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord

# A model's own code as far as the command line sees it: it answers with the number of its version.
ENTRY = """
    import argparse, json, sys
    parser = argparse.ArgumentParser()
    for name in ("input", "output", "keep"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    lines = open(given.input).read().splitlines()
    if lines[:1] == ["bad"]:
        print("error: the rows lack p0.", file=sys.stderr)
        sys.exit(2)
    if lines[:1] == ["crash"]:
        raise RuntimeError("no such kernel")
    print("said by the recipe")
    answer = ANSWER
    rows = [{**({"id": line} if given.keep else {}), **answer} for line in lines]
    open(given.output, "w").write("".join(json.dumps(row) + "\\n" for row in rows))
"""
CLASSES = '{"predicted": %d, "scores": [0.25, 0.5, 0.25]}'


def write_model(folder: Path, answer: str) -> Path:
    (folder / "code").mkdir(parents=True)
    (folder / "model.json").write_text("{}")
    (folder / "code" / "inference.py").write_text(dedent(ENTRY).replace("ANSWER", answer))
    return folder


def package(uri: str) -> dict[str, Any]:
    return {"InferenceSpecification": {"Containers": [{"ModelDataUrl": uri}]}}


@pytest.fixture
def registry(drivetrain) -> LocalRegistry:
    return LocalRegistry(drivetrain.home / "ledger.db")


@pytest.fixture
def models(drivetrain, registry: LocalRegistry, tmp_path: Path):
    """`drivetrain models predict digits` with three versions: a folder, a folder in the runs' S3, and an archive."""
    folders = [write_model(tmp_path / f"v{number}", CLASSES % (number % 3)) for number in (1, 2, 3)]
    objects = drivetrain.home / "s3" / "bucket"
    objects.mkdir(parents=True)
    folders[1].rename(objects / "v2")
    with tarfile.open(objects / "model.tar.gz", "w:gz") as archive:
        archive.add(folders[2], ".")
    places = [f"file://{folders[0]}", "s3://bucket/v2", "s3://bucket/model.tar.gz"]
    paths = [folders[0], objects / "v2", objects / "model.tar.gz"]
    for place, path in zip(places, paths, strict=True):
        registry.register("digits", content_hash(path), record_of(package(place)))
    registry.set_status("digits", 2, "Approved")
    (tmp_path / "rows.csv").write_text("".join(f"row-{number}\n" for number in range(12)))

    def call(*arguments: object, code: int = 0, source: str = "rows.csv", group: str = "digits") -> str:
        given = ("predict", group, "--input", tmp_path / source, "--home", drivetrain.home)
        out = drivetrain("models", *given, *arguments, code=code)
        return drivetrain.err if code else out

    call.paths = paths  # type: ignore[attr-defined]
    return call


@pytest.mark.parametrize(
    ("version", "number"), [("1", 1), ("latest", 3), ("approved", 2), ("3", 3)], ids=lambda value: str(value)
)
def test_the_requested_version_answers(version: str, number: int, models) -> None:
    found = json.loads(models("--version", version, "--json"))
    assert (found["group"], found["version"], len(found["predictions"])) == ("digits", number, 12)
    assert found["predictions"][0] == {"predicted": number % 3, "scores": [0.25, 0.5, 0.25]}


def test_the_approved_version_answers_unless_another_is_named(models, registry: LocalRegistry) -> None:
    found = json.loads(models("--json"))
    assert (found["version"], found["status"]) == (2, "Approved")
    registry.set_status("digits", 3, "Approved")
    registry.set_status("digits", 3, "Rejected")  # as a rollback does
    assert json.loads(models("--json"))["version"] == 2
    assert models("--version", "latest").startswith("digits version 3, rejected\n")


def test_without_an_approved_version_the_newest_that_is_not_rejected_answers(
    models, registry: LocalRegistry, drivetrain
) -> None:
    registry.set_status("digits", 2, "PendingManualApproval")
    registry.set_status("digits", 3, "Rejected")
    assert json.loads(models("--json"))["version"] == 2
    assert "digits has no approved version. Version 2 answers, the newest not rejected" in drivetrain.err
    for number in (1, 2):
        registry.set_status("digits", number, "Rejected")
    assert "Every version of digits is rejected. Choose a version: --version 3." in models(code=2)


def test_a_table_of_the_first_rows(models) -> None:
    lines = models("--version", "1", "--keep", "id").splitlines()
    assert lines[0] == "digits version 1, waiting for approval"
    assert lines[1].split() == ["ROW", "ID", "PREDICTED", "PROBABILITY"]
    assert lines[2].split() == ["0", "row-0", "1", "0.5000"]
    assert len(lines) == 13
    assert lines[12] == "and 2 more rows; --output FILE writes all, --json prints them"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ('{"predicted": 0, "score": 0.25}', ["0", "0", "0.7500"]),
        ('{"predicted": 1, "score": 0.75}', ["0", "1", "0.7500"]),
        ('{"predicted": 2.5}', ["0", "2.5"]),
        ('{"predicted": [1, 0], "scores": [0.9, 0.1]}', ["0", "[1,", "0]"]),
    ],
)
def test_answers_of_other_tasks(answer: str, shown: list[str], models, registry: LocalRegistry, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "other", answer)
    registry.register("other", content_hash(folder), record_of(package(str(folder))))
    assert models(group="other").splitlines()[2].split() == shown


def test_all_answers_in_a_file(models, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    assert models("--output", out) == f"{out}: the answers of digits version 2\n"
    assert len(out.read_text().splitlines()) == 12
    assert json.loads(models("--output", out, "--json"))["output"] == str(out)


def test_the_input_is_not_overwritten(models, tmp_path: Path) -> None:
    before = (tmp_path / "rows.csv").read_bytes()
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    for output in (tmp_path / "rows.csv", tmp_path / "v1" / ".." / "rows.csv", tmp_path / "link.csv"):
        said = models("--output", output, code=2)
        assert said == (
            f"error: --output {output} is the input: the answers would replace its rows. Give another place.\n"
        )
    assert (tmp_path / "rows.csv").read_bytes() == before


def test_predicting_leaves_no_files_in_the_model(models) -> None:
    before = content_hash(models.paths[0])
    models("--version", "1")
    assert content_hash(models.paths[0]) == before


def test_files_that_differ_from_the_registered_ones_are_refused(models) -> None:
    entry = models.paths[0] / "code" / "inference.py"
    entry.write_text(entry.read_text() + "\n")
    said = models("--version", "1", code=2)
    assert said.startswith("error: the files of digits version 1 at file://") and len(said.splitlines()) == 1
    assert "are not those that were registered (" in said and "its files have changed" in said


def test_missing_files_are_refused(models) -> None:
    models.paths[2].unlink()
    assert "there is nothing at s3://bucket/model.tar.gz" in models("--version", "3", code=2)


def test_a_version_without_a_location_is_refused(models, registry: LocalRegistry) -> None:
    registry.register("bare", "a" * 64, ModelRecord())
    assert "its version names no ModelDataUrl" in models(group="bare", code=2)


def test_a_model_without_code_is_refused(models, registry: LocalRegistry, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "old", "{}")
    (folder / "code" / "inference.py").unlink()
    (folder / "model.json").write_text('{"format": 1, "weights": {}}')
    registry.register("old", content_hash(folder), record_of(package(str(folder))))
    assert "error: old version 1 has no code/inference.py" in models(group="old", code=2)


@pytest.mark.parametrize("description", ['{"0": [1.0, 2.0]}', "[1, 2]", "no JSON", None])
def test_a_model_of_a_users_own_program(
    models, registry: LocalRegistry, tmp_path: Path, description: str | None
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "centers.txt").write_text("1 2")
    if description is not None:
        (folder / "model.json").write_text(description)
    registry.register("own", content_hash(folder), record_of(package(str(folder))))
    said = models(group="own", code=2)
    assert (
        "error: own version 1 has no code/inference.py, so it cannot predict: it is a model of your own program."
        in said
    )
    assert "Give it to describe_model with a module that has load(folder) and predict(model, columns)" in said


def test_a_model_of_a_users_own_program_that_answers(models, registry: LocalRegistry, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "own", CLASSES % 1)
    (folder / "model.json").unlink()
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    archived = tmp_path / "model.tar.gz"
    registry.register("own", content_hash(archived), record_of(package(str(archived))))
    assert json.loads(models("--json", group="own"))["predictions"][0]["predicted"] == 1


@pytest.mark.parametrize("description", [None, '{"format": 1, "framework": "functions", "answers": "answer"}'])
def test_a_model_of_functions_needs_no_torch(
    description: str | None, models, registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    folder = write_model(tmp_path / "own", CLASSES % 1)
    (folder / "model.json").unlink()
    if description is not None:
        (folder / "model.json").write_text(description)
    registry.register("own", content_hash(folder), record_of(package(str(folder))))
    assert json.loads(models("--json", group="own"))["predictions"][0]["predicted"] == 1


def test_a_model_of_a_framework_that_is_not_here(
    models, registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorflow" else found(name))
    folder = write_model(tmp_path / "keras", "{}")
    (folder / "model.json").write_text('{"framework": "tensorflow"}')
    registry.register("keras", content_hash(folder), record_of(package(str(folder))))
    said = models(group="keras", code=2)
    assert "predicts with tensorflow, which is not installed. Install it with: pip install tensorflow." in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": "digit"}, "has no group 'digit'. Did you mean 'digits'?"),
        ({"arguments": ("--version", "9")}, "'digits' has no version '9'"),
        ({"source": "nowhere.csv"}, "nowhere.csv: there is no such file"),
    ],
)
def test_what_is_not_there(arguments: dict[str, Any], message: str, models) -> None:
    said = models(*arguments.pop("arguments", ()), **arguments, code=2)
    assert said.startswith("error: ") and message in said and len(said.splitlines()) == 1


def test_errors_of_the_model_about_rows_are_shown(models, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("bad\n")
    assert models(source="bad.csv", code=2) == "error: the rows lack p0.\n"
    (tmp_path / "crash.csv").write_text("crash\n")
    assert models(source="crash.csv", code=2).splitlines()[-1] == (
        "error: the model's own code failed: RuntimeError: no such kernel"
    )


SEEN = """
    import argparse, json, os, resource, socket
    parser = argparse.ArgumentParser()
    for name in ("input", "output", "keep"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    port = int(open(given.input).read())
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        network = True
    except OSError:
        network = False
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CORE, resource.RLIMIT_DATA)]
    seen = {"predicted": 1, "environment": dict(os.environ), "network": network, "limits": limits}
    open(given.output, "w").write(json.dumps(seen) + "\\n")
"""


def test_the_model_runs_like_a_step_without_network(
    models, registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "curious", "{}")
    (folder / "code" / "inference.py").write_text(dedent(SEEN))
    registry.register("curious", content_hash(folder), record_of(package(str(folder))))
    for name in ("API_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_SETTING", "PYTHONPATH", "DRIVETRAIN_HOME"):
        monkeypatch.setenv(name, "of the caller")
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "port.csv").write_text(str(server.getsockname()[1]))
        seen = json.loads(models("--json", group="curious", source="port.csv"))["predictions"][0]
    expected = {*INHERITED, *DEFAULTS, "PATH", "TMPDIR", "LC_CTYPE"}
    assert set(seen["environment"]) <= expected and "of the caller" not in seen["environment"].values()
    assert seen["limits"][0] == 0 and seen["limits"][1] > 0
    left = subprocess.run(
        ["unshare", "--net" if os.geteuid() == 0 else "-rn", "true"], capture_output=True, check=False
    )
    assert seen["network"] == (left.returncode != 0)


def test_a_slow_model_is_ended_with_its_child_processes(models, registry: LocalRegistry, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "slow", "{}")
    held = tmp_path / "held"
    program = f"import fcntl, os, time; file = open({str(held)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX); os.fork()"
    (folder / "code" / "inference.py").write_text(f"{program}; time.sleep(600)")
    registry.register("slow", content_hash(folder), record_of(package(str(folder))))
    said = models("--time-limit", "0.6", group="slow", code=2)
    assert said.startswith("error: the model's own code took more than 0.6 s") and len(said.splitlines()) == 1
    with held.open() as file:  # waits for the death of whoever holds it
        fcntl.flock(file, fcntl.LOCK_EX)
    assert "--time-limit 0: allowed are" in models("--time-limit", "0", group="slow", code=2)


def test_the_command_line_itself_imports_no_torch() -> None:
    program = (
        "import sys, drivetrain.cli.main, drivetrain.cli.models.predict as command\n"
        "from drivetrain.registry import artifacts, content_hash, model_folder\n"
        "print(sorted({'torch', 'numpy', 'boto3', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_a_model_of_a_training_answers_a_file_of_each_kind(drivetrain, registry: LocalRegistry, tmp_path: Path) -> None:
    """What evaluation says of the rows, from CSV, JSON Lines and Parquet, with an environment that has a drivetrain."""
    import pyarrow.parquet as parquet

    from tests.distributed import prepared_data

    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(20), num_shards=1)
    trained = [f"--{name}={tmp_path / name}" for name in ("model", "output", "checkpoints")]
    command = [sys.executable, "-m", "drivetrain.components.train", f"--train={data}", *trained, "--epochs=2"]
    subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))
    registry.register("digits", content_hash(tmp_path / "model"), record_of(package(f"file://{tmp_path / 'model'}")))
    table = parquet.read_table(data / "part-00000.parquet")
    rows = table.to_pylist()
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    parquet.write_table(table, tmp_path / "rows.parquet")
    given = ("models", "predict", "digits", "--home", drivetrain.home, "--keep", "id", "--input")
    answers = json.loads(drivetrain(*given, tmp_path / "rows.jsonl", "--json"))["predictions"]
    assert [row["id"] for row in answers] == [row["id"] for row in rows]
    for kind in ("csv", "parquet"):
        drivetrain(*given, tmp_path / f"rows.{kind}", "--output", tmp_path / f"out.{kind}")
    expected = [[row["id"], row["predicted"], *row["scores"]] for row in answers]
    assert [list(row.values()) for row in parquet.read_table(tmp_path / "out.parquet").to_pylist()] == expected
    with (tmp_path / "out.csv").open() as file:
        head, *lines = csv.reader(file)
    assert head == ["id", "predicted", *(f"score_{number}" for number in range(10))]
    assert [[line[0], int(line[1]), *map(float, line[2:])] for line in lines] == expected
    (tmp_path / "few.csv").write_text("p0,p1\n1,2\n")
    assert drivetrain.error(*given, tmp_path / "few.csv").startswith("error: no column 'id'")
    said = drivetrain.error(*given[:-3], "--input", tmp_path / "few.csv")
    assert f"error: {tmp_path / 'few.csv'}: the rows lack p2, p3, p4, p5, p6 and 57 more." in said


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_that_match_the_registered_hash_are_fetched(
    version: int, models, drivetrain, registry: LocalRegistry, tmp_path: Path
) -> None:
    kept, lies = tmp_path / "kept", models.paths[version - 1]
    for path in (lies, *lies.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    given = ("models", "fetch", "digits", version, "--home", drivetrain.home)
    said = drivetrain(*given, "--output", kept)
    wanted = registry.version("digits", version).content_hash
    assert said == (
        f"digits version {version}: its files are those that were registered ({wanted[:12]}); they are in {kept}\n"
    )
    archive = kept / "model.tar.gz"
    assert content_hash(archive if version == 3 else kept) == wanted
    (tmp_path / "new").touch()  # as the umask says, unlike what lies in a home
    own = {path.stat().st_mode & 0o777 for path in kept.rglob("*") if path.is_file()}
    assert own == {(tmp_path / "new").stat().st_mode & 0o777}
    assert json.loads(drivetrain(*given, "--json"))["content_hash"] == wanted
    assert drivetrain(*given, "--output", kept, code=2) == "" and "something is there" in drivetrain.err
    path = models.paths[version - 1]
    if path.is_dir():
        (path / "model.json").write_text("[]")
    else:
        with tarfile.open(path, "w:gz") as made:
            made.add(models.paths[0], ".")
    elsewhere = tmp_path / "elsewhere"
    for more in ((), ("--output", elsewhere)):
        drivetrain(*given, *more, code=2)
        assert "error: the files of digits version" in drivetrain.err and len(drivetrain.err.splitlines()) == 1
    assert not elsewhere.exists() and not [each for each in tmp_path.iterdir() if each.name.startswith(".drivetrain-")]


def test_files_without_a_known_hash_are_not_fetched(models, drivetrain, registry: LocalRegistry) -> None:
    with sqlite3.connect(drivetrain.home / "ledger.db") as connection:
        connection.execute("UPDATE model_versions SET content_hash = '' WHERE version = 1")
    drivetrain("models", "fetch", "digits", 1, "--home", drivetrain.home, code=2)
    assert drivetrain.err.startswith("error: the registry knows no content hash of digits version 1")


@pytest.mark.parametrize("version", [2, 3])
def test_downloads_are_kept(
    version: int, models, drivetrain, registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = models.paths[version - 1]

    def download(uri: str, folder: Path) -> Path:
        """As from S3: a folder's files into it, an object under its name."""
        if source.is_dir():
            return Path(shutil.copytree(source, folder))
        folder.mkdir()
        return Path(shutil.copy(source, folder))

    monkeypatch.setattr(artifacts, "fetch", download)
    kept = tmp_path / "kept"
    drivetrain("models", "fetch", "digits", version, "--home", drivetrain.home, "--output", kept)
    wanted = registry.version("digits", version).content_hash
    assert content_hash(kept / "model.tar.gz" if version == 3 else kept) == wanted
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".drivetrain-")]


@pytest.mark.parametrize("line", ['{"stays": "1"}', "[1]", "stays"])
def test_an_answer_without_a_prediction_is_reported(line: str) -> None:
    with pytest.raises(UserError, match="Allowed for each row"):
        answer(line)
