"""Bytes that rot under equal times are found, and made again by the next run."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.verifying import checkpoint_places, verify
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import BUCKET, LocalRuns, model_of, output_of

ROWS = b"a,b\n" * 100
DATA = f"{BUCKET}/data/rows.csv"
COPY = """
from pathlib import Path
for path in Path("/opt/ml/processing/input/rows").iterdir():
    Path("/opt/ml/processing/output/out", path.name).write_bytes(path.read_bytes())
"""
FIT = 'from pathlib import Path\nPath("/opt/ml/model/w.txt").write_text("1")\nPath("/opt/ml/checkpoints/c").touch()\n'


class Case:
    def __init__(self, runs: LocalRuns, folder: Path) -> None:
        self.runs, self.source = runs, folder / "rows.csv"
        self.source.write_bytes(ROWS)
        register = {
            "ModelPackageGroupName": "models",
            "InferenceSpecification": {"Containers": [{"Image": "i", "ModelDataUrl": model_of("fit")}]},
        }
        self.steps = [
            runs.processing("copy", COPY, inputs={"rows": DATA}, outputs=["out"], cache=True),
            runs.training(
                "fit",
                FIT,
                inputs={"data": output_of("copy", "out")},
                hyperparameters={"rate": {"Get": "Parameters.Rate"}},
                checkpoints=f"{BUCKET}/checkpoints/",
            ),
            {"Name": "register", "Type": "RegisterModel", "Arguments": register},
        ]

    def run(self, fresh: str = "no", rate: str = "0.2") -> str:
        asset = Asset(DATA, hashlib.sha256(ROWS).hexdigest(), self.source)
        values = {"Fresh": fresh, "Rate": rate}
        text = self.runs.text(self.steps, [{"Name": name, "Type": "String", "DefaultValue": "no"} for name in values])
        summary = Runner(self.runs.home).start(text, values, Options(pipeline="test"), assets=[asset])
        assert summary.status == "Succeeded", summary.reason
        return summary.execution

    def rot(self, uri: str) -> Path:
        """Another byte, under the size and all times that the ledger has."""
        path = self.runs.store.path(uri)
        before = path.stat()
        path.write_bytes(b"X" + path.read_bytes()[1:])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with LedgerWriter(self.runs.home) as ledger, ledger.transaction() as db:
            db.execute("UPDATE objects SET ctime_ns = ? WHERE uri = ?", (path.stat().st_ctime_ns, uri))
        return path


@pytest.fixture
def case(runs: LocalRuns, tmp_path: Path) -> Case:
    return Case(runs, tmp_path)


def test_an_undamaged_home_passes(case: Case) -> None:
    case.run()
    told: list[tuple[int, int]] = []
    found = verify(case.runs.home, lambda done, total: told.append((done, total)))
    assert found.damages == () and found.files == 3
    assert [total for _, total in told] == [found.bytes] * 3 and told[0][0] == 0
    assert found.unknown == 3, "two programs that a test put there, and a checkpoint"
    assert [uri for uri, _ in checkpoint_places(case.runs.home)] == [f"{BUCKET}/checkpoints"]


def test_a_damaged_output_is_found_and_remade(case: Case) -> None:
    first = case.run()
    uri = f"{BUCKET}/runs/{first}/copy/out/rows.csv"
    path = case.rot(uri)
    second = case.run()
    assert case.runs.statuses(second)["copy"] == "Cached", "a hit goes by size and times"
    (damage,) = verify(case.runs.home).damages
    assert (damage.what, damage.path, damage.problem) == (uri, str(path), "its bytes have changed")
    assert set(damage.runs) == {first, second} and damage.versions == ()
    assert "The next run of the pipeline makes it again (step 'copy')" in damage.advice
    third = case.run()
    assert case.runs.statuses(third)["copy"] == "Succeeded"
    assert case.runs.read(f"{BUCKET}/runs/{third}/copy/out/rows.csv") == ROWS.decode()


def test_a_damaged_upload_is_found_and_uploaded_again(case: Case) -> None:
    run = case.run()
    path = case.rot(DATA)
    (damage,) = verify(case.runs.home).damages
    assert damage.runs == (run,) and damage.advice == "The next run of the pipeline uploads it again."
    case.run()
    assert path.read_bytes() == ROWS and verify(case.runs.home).damages[:1] == ()


def test_versions_hit_by_a_damaged_or_lost_model_are_listed(case: Case) -> None:
    run = case.run()
    (version,) = LocalRegistry(case.runs.home.ledger).versions("models")
    path = case.rot(version.artifact)
    (damage,) = verify(case.runs.home).damages
    assert damage.versions == ("models version 1",) and damage.runs == (run,)
    assert damage.advice.startswith("Restore it from a backup, or train again: models version 1")
    path.write_bytes(b"short")
    assert verify(case.runs.home).damages[0].problem.startswith("it has 5 bytes and not ")
    path.unlink()
    assert verify(case.runs.home).damages[0].problem == "it is gone"


def test_a_remade_file_is_no_error(case: Case) -> None:
    first = case.run()
    model = LocalRegistry(case.runs.home.ledger).version("models").artifact
    for uri in (f"{BUCKET}/runs/{first}/copy/out/rows.csv", model):
        case.rot(uri)
    assert [damage.superseded for damage in verify(case.runs.home).damages] == [False, False]
    second = case.run()
    version = LocalRegistry(case.runs.home.ledger).version("models")
    assert version.version == 1 and second in version.artifact, "the same content, at its new place"
    damages = verify(case.runs.home).damages
    assert [(damage.superseded, damage.versions) for damage in damages] == [(True, ()), (True, ())]
    assert f"run {second} made it, too (step 'copy')" in damages[0].advice


@pytest.mark.parametrize("before", [True, False])
def test_results_of_a_fresh_start_are_no_error_once_a_plain_run_has_them(case: Case, before: bool) -> None:
    """Whether the plain run is the first one, whose results the next one takes, or the next one makes it again."""
    for each in case.steps[:2]:
        each["Arguments"]["Environment"] = {"DRIVETRAIN_FRESH": {"Get": "Parameters.Fresh"}}
    first = case.run() if before else None
    fresh = case.run("f1")
    case.rot(f"{BUCKET}/runs/{fresh}/copy/out/rows.csv")
    assert [damage.superseded for damage in verify(case.runs.home).damages] == [before]
    last = case.run()
    assert case.runs.statuses(last)["copy"] == ("Cached" if before else "Succeeded")
    (damage,) = verify(case.runs.home).damages
    assert damage.superseded and f"run {first or last} made it, too (step 'copy')" in damage.advice


@pytest.mark.parametrize(("rate", "superseded"), [("0.1", False), ("0.2", True)])
def test_results_with_other_values_are_still_needed(case: Case, rate: str, superseded: bool) -> None:
    del case.steps[2]
    for each in case.steps:
        each["Arguments"]["Environment"] = {"DRIVETRAIN_FRESH": {"Get": "Parameters.Fresh"}}
    first = case.run()
    case.run("f1", rate)
    (model,) = case.runs.store.path(f"{BUCKET}/runs/{first}/fit").rglob("model.tar.gz")
    case.rot(f"{BUCKET}/{model.relative_to(case.runs.store.path(BUCKET))}")
    (damage,) = verify(case.runs.home).damages
    assert damage.superseded == superseded


def test_a_damaged_ledger_is_one_clear_error(case: Case) -> None:
    case.run()
    ledger = case.runs.home.ledger
    ledger.write_bytes(ledger.read_bytes()[:4096] + b"\xff" * (ledger.stat().st_size - 4096))
    with pytest.raises(UserError, match=r"ledger\.db (is damaged|cannot be used)"):
        verify(case.runs.home)


def test_a_home_without_runs_passes(runs: LocalRuns) -> None:
    assert verify(runs.home).files == 0
