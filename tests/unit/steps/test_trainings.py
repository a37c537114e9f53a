"""Which folder a training works in, and which of the others stay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from drivetrain.steps import trainings
from drivetrain.steps.trainings import RECORD, Choice, Kept, choose, content_hash, execution_of, script_code

NOW = 1_000_000_000.0
DAY = 86_400.0


def choice(*kept: Kept, parts: Mapping[str, object], execution: str = "e9", others: tuple[str, ...] = ()) -> Choice:
    found = {each.folder: each for each in kept} | dict.fromkeys(others)
    return choose(found, "name", parts, execution, may_change=("epochs",), now=NOW)


def test_an_execution_is_known_by_its_job() -> None:
    job = "pipelines-p4jn9xou8a8s-my-step-tmgxry49ug"
    assert execution_of({"TRAINING_JOB_NAME": job}) == "p4jn9xou8a8s"
    assert execution_of({"TRAINING_JOB_NAME": "train-6b1f"}) == "train-6b1f"
    assert execution_of({"TRAINING_JOB_NAME": job, "DRIVETRAIN_EXECUTION": "run-7"}) == "run-7"
    assert execution_of({}) == ""


def test_the_last_ended_training_and_running_ones_are_kept() -> None:
    kept = [
        Kept("ended-1", {"lr": "1"}, "e1", NOW - 3 * DAY, True),
        Kept("ended-2", {"lr": "2"}, "e2", NOW - 2 * DAY, True),
        Kept("at-work", {"lr": "3"}, "e3", NOW - 29 * DAY),
        Kept("forgotten", {"lr": "4"}, "e4", NOW - 31 * DAY),
        Kept("emptied", {}, "", -1.0, True),
    ]
    found = choice(*kept, parts={"lr": "9"})
    assert (found.folder, found.is_new, sorted(found.going)) == ("name", True, ["emptied", "ended-1", "forgotten"])
    # What is one's own stays, however old.
    assert sorted(choice(*kept, parts={"lr": "4"}).going) == ["emptied", "ended-1"]
    assert choice(Kept("name", {}, "", -1.0, True), parts={"lr": "9"}).folder == "name-2"


def test_a_name_that_is_taken_is_not_given_twice() -> None:
    ended = Kept("name", {"lr": "1"}, "e1", 1.0, True)
    assert choice(ended, parts={"lr": "1"}).folder == "name-2"
    assert choice(ended, parts={"lr": "1"}, execution="e1") == Choice("name", False)
    assert choice(ended, parts={"lr": "1"}, execution="").folder == "name-2"  # in a shell nobody knows
    lost = choice(parts={"lr": "1"}, others=("name", "another"))
    assert lost == Choice("name", False)


def test_a_place_of_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, place = tmp_path / "ml", tmp_path / "ml" / "trainings"
    place.mkdir(parents=True)
    told = {"SAGEMAKER_BASE_DIR": str(base), "TRAINING_JOB_NAME": "pipelines-one-train-x"}
    first = trainings.begin(place, {"data of train": "1"}, environment=told)
    assert isinstance(first, Path) and (base / "checkpoints").resolve() == first
    assert capsys.readouterr().out == "starts from: nothing (a new training)\n"
    (first / "last.pt").write_bytes(b"state")
    assert trainings.begin(place, {"data of train": "1"}, environment=told) == first
    kept = r"starts from: what this training has kept \(last start: \d{4}-\d\d-\d\d \d\d:\d\d UTC, run one\)\n"
    assert re.fullmatch(kept, capsys.readouterr().out)
    trainings.end(first)
    told["TRAINING_JOB_NAME"] = "pipelines-two-train-x"
    second = trainings.begin(place, {"data of train": "1"}, environment={**told, "DRIVETRAIN_FRESH": "ab12"})
    assert isinstance(second, Path) and (base / "checkpoints").resolve() == second != first
    assert [path.name for path in second.iterdir()] == [".drivetrain"]
    assert capsys.readouterr().out.endswith("starts from: nothing (--fresh)\n")
    trainings.end(second)
    # An agent takes an emptied file for a change; with the next start it goes.
    trainings.begin(place, {"data of train": "2"}, environment=told)
    assert (first / "last.pt").read_bytes() == (first / RECORD).read_bytes() == b""
    trainings.begin(place, {"data of train": "2"}, environment=told)
    assert not first.exists() and json.loads((second / RECORD).read_text())["ended"]


def test_names_and_bytes_are_the_content_of_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/one").write_bytes(b"1" if name != "c" else b"2")
        (tmp_path / name / "two").write_bytes(b"2")
    hashes = [content_hash(tmp_path / name) for name in ("a", "b", "c")]
    assert hashes[0] == hashes[1] != hashes[2]
    (tmp_path / "b/two").rename(tmp_path / "b/three")
    assert content_hash(tmp_path / "b") != hashes[0]
    assert content_hash(tmp_path / "a/two") != content_hash(tmp_path / "a/sub/one")


def test_a_script_is_what_it_imports_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fit.py").write_text("import torch\nimport beside\nfrom shared import above\n")
    (tmp_path / "bin/beside.py").write_text("")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/above.py").write_text("")
    (tmp_path / "pipeline.py").write_text("")
    assert list(script_code("bin/fit.py", tmp_path)) == ["code of beside", "code of fit", "code of shared.above"]
    before = script_code("bin/fit.py", tmp_path)
    (tmp_path / "pipeline.py").write_text("edited = True")
    assert script_code("bin/fit.py", tmp_path) == before
    (tmp_path / "shared/above.py").write_text("edited = True")
    assert script_code("bin/fit.py", tmp_path) != before


@pytest.mark.parametrize("told", [{"TrainingInputMode": "FastFile"}, {"S3DistributionType": "ShardedByS3Key"}])
def test_sharded_data_are_identified_by_the_execution(told: dict[str, str], tmp_path: Path) -> None:
    from drivetrain.components.train_script import train_script

    (tmp_path / "input/config").mkdir(parents=True)
    (tmp_path / "input/config/inputdataconfig.json").write_text(json.dumps({"train": told}))
    (tmp_path / "data").mkdir()
    values = {name: declared.default for name, declared in train_script.parameters.items()}
    values |= {
        "train": tmp_path / "data",
        "validation": tmp_path / "data",
        "test": None,
        "source": None,
        "continue_from": None,
    }
    environment = {"SAGEMAKER_BASE_DIR": str(tmp_path), "DRIVETRAIN_EXECUTION": "e1"}
    parts = trainings.parts_of(train_script, values, environment)
    assert parts["data of train"] == "only in run e1"
    assert parts["data of validation"] == content_hash(tmp_path / "data") and "data of test" not in parts


def test_a_training_resumed_with_changes_belongs_to_its_run_only() -> None:
    begun = Kept("name-of-3", {"epochs": 3}, "e1", NOW - DAY)
    resumed = choice(begun, parts={"epochs": 4}, execution="e1")
    assert (resumed.folder, resumed.changed) == ("name-of-3", ("epochs 3 -> 4",))
    mixed = begun._replace(parts={"epochs": 4}, changed=resumed.changed)
    assert trainings.read_kept("name-of-3", mixed.record) == mixed
    again = choice(mixed, parts={"epochs": 4}, execution="e1")
    assert (again.folder, again.changed) == ("name-of-3", ("epochs 3 -> 4",))
    for execution in ("e2", ""):
        other = choice(mixed, parts={"epochs": 4}, execution=execution)
        assert other.folder == "name" and other.lines[0].endswith("It differs in: epochs 3 -> 4 on its way")


def test_a_start_killed_while_cleaning_leaves_only_removable_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ended"
    trainings.write(folder, Kept("ended", {"a": 1}, "e1", NOW, True))
    (folder / "last.pt").write_bytes(b"state")

    def dies(path: Path, content: bytes, write: Callable[[Path, bytes], int] = Path.write_bytes) -> None:
        write(path, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", dies)
    with pytest.raises(KeyboardInterrupt):
        trainings.clear(tmp_path, ["ended"], {"TRAINING_JOB_NAME": "x"})
    assert ((folder / RECORD).read_bytes(), (folder / "last.pt").read_bytes()) == (b"", b"state")
