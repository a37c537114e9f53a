"""Executes the notebook of a notebook job: `python notebook_program.py BASE`, BASE being /opt/ml.

The variables SM_EXECUTION_INPUT_PATH, SM_INPUT_NOTEBOOK_NAME, SM_OUTPUT_NOTEBOOK_NAME and SM_KERNEL_NAME say which,
and the hyperparameters are its parameters: a cell after the one with the tag `parameters`, as papermill has it. The
executed notebook goes to BASE/output/data, also when a cell fails. Needs nbclient, nbformat and a kernel.
Exit codes: 0 done, 1 a cell failed, 2 there is no such notebook.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PARAMETERS, INJECTED = "parameters", "injected-parameters"
DEFAULT_KERNEL = "python3"


def with_parameters(notebook: Any, parameters: dict[str, str]) -> None:
    """Put the parameters' values after the cell with their defaults, else first; an earlier run's are replaced."""
    from nbformat import v4

    new_code_cell: Any = v4.new_code_cell  # type: ignore[reportUnknownMemberType]  # nbformat says no types
    notebook.cells = [cell for cell in notebook.cells if INJECTED not in tags(cell)]
    if not parameters:
        return
    source = "\n".join(["# Parameters", *(f"{name} = {value!r}" for name, value in parameters.items())])
    cell = new_code_cell(source, metadata={"tags": [INJECTED]})
    place = next((number + 1 for number, each in enumerate(notebook.cells) if PARAMETERS in tags(each)), 0)
    notebook.cells.insert(place, cell)


def tags(cell: Any) -> list[str]:
    return cell.get("metadata", {}).get("tags", [])


def kernel() -> str:
    """The kernel that the job names, where there is one of that name here."""
    from jupyter_client.kernelspec import KernelSpecManager

    wanted = os.environ.get("SM_KERNEL_NAME") or DEFAULT_KERNEL
    if wanted in KernelSpecManager().find_kernel_specs():
        return wanted
    print(f"note: there is no kernel {wanted!r} here; {DEFAULT_KERNEL} is used.", flush=True)
    return DEFAULT_KERNEL


def show(cell: Any, number: int, count: int) -> None:
    """Print a cell's number and what it printed, for the log."""
    print(f"Executing: cell {number}/{count}", flush=True)
    for output in cell.get("outputs", ()):
        if output.get("output_type") == "stream":
            print(output.get("text", ""), end="", flush=True)


def main(base: str) -> int:
    # Where kernels leave their files: this job's own, not the user's.
    scratch = os.environ.get("TMPDIR", "/tmp")
    os.environ.update(JUPYTER_RUNTIME_DIR=f"{scratch}/jupyter", IPYTHONDIR=f"{scratch}/ipython")
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    formats: Any = nbformat  # which says no types

    folder = Path(os.environ["SM_EXECUTION_INPUT_PATH"])
    path = folder / os.environ["SM_INPUT_NOTEBOOK_NAME"]
    if not path.is_file():
        print(f"error: there is no notebook {path.name} in {folder}", file=sys.stderr)
        return 2
    if os.environ.get("SM_INIT_SCRIPT"):
        print(f"note: {os.environ['SM_INIT_SCRIPT']} (SM_INIT_SCRIPT) is not run locally.", flush=True)
    notebook = formats.read(path, as_version=4)
    given = Path(base, "input", "config", "hyperparameters.json")
    with_parameters(notebook, json.loads(given.read_text(encoding="utf-8")))
    count = len(notebook.cells)

    def executed(cell: Any, cell_index: int, execute_reply: Any) -> None:
        show(cell, cell_index + 1, count)

    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name=kernel(),
        resources={"metadata": {"path": str(folder)}},
        on_cell_executed=executed,
    )
    failure = ""
    try:
        client.execute()
    except CellExecutionError as error:
        failure = f"{error.ename}: {error.evalue}"
        print(str(error), file=sys.stderr)
    formats.write(notebook, Path(base, "output", "data", os.environ["SM_OUTPUT_NOTEBOOK_NAME"]))
    if failure:
        Path(base, "output", "failure").write_text(failure[:1024], encoding="utf-8")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
