"""docs/studio.ipynb is executed as a user does, against an account on this machine; and it is kept without outputs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from drivetrain.cli.main import COMMANDS
from tests.fixtures.sagemaker_service.server import TestAccount, sagemaker_service

NOTEBOOK = Path(__file__).parents[2] / "docs" / "studio.ipynb"
PATIENCE_S = 300


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture
def account() -> Generator[TestAccount]:
    with sagemaker_service().account() as account:
        yield account


def test_the_notebook_is_stored_unchanged(notebook: Any) -> None:
    nbformat.validate(notebook)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        assert cell.cell_type != "code" or (cell.outputs, cell.execution_count) == ([], None)
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert NOTEBOOK.read_text(encoding="utf-8") == json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    assert set(kept["metadata"]) == {"kernelspec", "language_info"}


def test_every_command_in_it_exists(notebook: Any) -> None:
    named = {name for cell in notebook.cells for name in re.findall(r"(?:!|`)drivetrain (\w+)", cell.source)}
    assert named >= {"compile", "show", "run", "runs", "plan", "apply", "pull"}
    assert named <= set(COMMANDS)


# By day the commands in its cells are tested one by one; that they follow from one another is the night's.
@pytest.mark.nightly
def test_the_cells_do_what_the_text_says(
    notebook: Any, account: TestAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)  # nothing outside of this machine is to be reached
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    bucket = account.make_bucket()
    given = {
        "bucket": bucket,
        "role": f"arn:aws:iam::{account.number}:role/pipelines",
        "changes": {"epochs": 2, "min_accuracy": 0.3},
    }
    cells = {cell.id: cell for cell in notebook.cells}
    assert cells["parameters"].metadata.tags == ["parameters"]
    # As papermill gives parameters: in a cell after theirs.
    given_cell = nbformat.v4.new_code_cell("\n".join(f"{name} = {value!r}" for name, value in given.items()))
    notebook.cells.insert(notebook.cells.index(cells["parameters"]) + 1, given_cell)

    def edit_in_studio(cell: Any, cell_index: int, execute_reply: Any) -> None:
        if cell.id != "apply":
            return
        sagemaker = account.client("sagemaker")
        definition = json.loads(sagemaker.describe_pipeline(PipelineName="retraining")["PipelineDefinition"])
        [train] = [step for step in definition["Steps"] if step["Name"] == "train"]
        assert train["Arguments"]["HyperParameters"]["epochs"] == "2"
        train["Arguments"]["HyperParameters"]["epochs"] = "5"
        sagemaker.update_pipeline(PipelineName="retraining", PipelineDefinition=json.dumps(definition, indent=1))

    client = NotebookClient(
        notebook,
        timeout=PATIENCE_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
        on_cell_executed=edit_in_studio,
    )
    client.execute()

    said = {cell.id: _text(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert not any("error:" in text or "Traceback" in text for text in said.values()), said
    assert "nothing that would be refused" in said["compile"]
    assert _shown(cells["picture"], "image/svg+xml").startswith("<svg")
    assert "retraining version 1" in said["run"], said["run"]
    assert _shown(cells["report"], "text/html").lstrip().lower().startswith("<!doctype html>")
    assert "+ pipeline 'retraining'" in said["plan"] and bucket in cells["settings"].outputs[0].text
    assert account.client("sagemaker").describe_pipeline(PipelineName="retraining")["PipelineStatus"] == "Active"
    assert "train: epochs 2 -> 5" in said["pull"] and "epochs: 2 -> 5   in production.yaml" in said["pull"]
    assert "place: steps.train.Arguments.HyperParameters.epochs" in said["review"]
    assert "in the code already:\n    train: epochs 2 -> 5" in said["plan-again"].replace("\r", "")
    assert "refuse" not in said["plan-again"]


def _text(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def _shown(cell: Any, kind: str) -> str:
    [shown] = [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]
    return str(shown)
