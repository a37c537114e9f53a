"""A pipeline whose components are a notebook's cells runs from the notebook, and is cached like any other."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

CELLS = (
    "import drivetrain as dt\nfrom drivetrain import Pipeline, step\n"
    "from drivetrain.components import Input, Output, component\nROWS = 4\n",
    "@component\ndef fit(model: Output) -> dict[str, float]:\n"
    "    (model / 'm.txt').write_text('x' * ROWS)\n    return {'size': ROWS}\n"
    "@component\ndef score(model: Input) -> dict[str, float]:\n"
    "    return {'accuracy': len((model / 'm.txt').read_text()) / 10}\n",
    "def mine() -> Pipeline:\n    model = step(fit)\n"
    "    return Pipeline(name='mine', steps=[model, step(score, model=model['model'])])\n"
    "run = dt.run(mine, quiet=True)\nprint(run.status, run.metrics['accuracy'])\n",
    "print([step.status for step in dt.run(mine, quiet=True).steps.values()])\nmine()\n",
)


@pytest.mark.slow
def test_cells_run_as_a_pipeline(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    first, second = notebook.cells[2].outputs, notebook.cells[3].outputs
    assert first[0].text == "Succeeded 0.4\n"
    assert second[0].text == "['Cached', 'Cached']\n"
    assert second[1].data["text/html"].startswith("<svg")
