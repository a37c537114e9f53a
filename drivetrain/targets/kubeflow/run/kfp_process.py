"""Execute a compiled pipeline with kfp's local runner, in a process of its own:

    python -m drivetrain.targets.kubeflow.run.kfp_process PIPELINE.yaml ARGUMENTS.json FOLDER

kfp writes into this process's output, changes it while tasks run, and cannot be stopped but with its process. Exit
codes: 0 done, 1 a task failed, 3 kfp cannot be used, or refuses the pipeline; its last line says why.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import NoReturn

from drivetrain.processes import TOKEN_VARIABLE, with_token
from drivetrain.processes.namespaces import set_parent_death_signal
from drivetrain.targets.kubeflow.run import kfp_gaps

FAILED, REFUSED = 1, 3
UNPACKED = "DRIVETRAIN_UNPACKED_CODE"
"""The SHA-256 of each archive of code -> the folders from which its tasks import, the user's source the second, as
JSON; this process has its own places."""


def end_all(number: int, frame: FrameType | None) -> NoReturn:
    """The runner is gone: nobody waits for the tasks any more."""
    for pid in with_token(os.environ[TOKEN_VARIABLE]):
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os._exit(128 + number)


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, end_all)
    set_parent_death_signal(signal.SIGTERM)
    # kfp orders tasks by sets of their names; the runner fixes that order, and for kfp alone.
    os.environ.pop("PYTHONHASHSEED", None)
    unpacked: dict[str, list[str]] = json.loads(os.environ.pop(UNPACKED))
    pipeline, arguments, folder = map(Path, sys.argv[1:])
    # A task's resources and image mean nothing here.
    warnings.filterwarnings("ignore", module="kfp")
    try:
        components, local = kfp_gaps.import_kfp()
    except ImportError as error:
        print(f"kfp cannot be imported: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    try:
        forks = kfp_gaps.mend(unpacked)
    except kfp_gaps.GapError as error:
        print(f"{error}. Install one that is: pip install 'drivetrain[kubeflow]'.", file=sys.stderr)
        sys.exit(REFUSED)
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=str(folder), raise_on_error=True)
    try:
        loaded = components.load_component_from_text(pipeline.read_text(encoding="utf-8"))
    except Exception as error:
        print(f"kfp refuses the pipeline: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    try:
        loaded(**json.loads(arguments.read_text(encoding="utf-8")))
    except RuntimeError as error:  # its word for a task that failed
        print(error, file=sys.stderr)
        sys.exit(FAILED)
    finally:
        forks.end()
    sys.exit(0)


if __name__ == "__main__":
    main()
