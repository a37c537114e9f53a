"""The train program, writing down each step: `python -m tests.faults.harness.traced_train`, started by the launcher."""

from __future__ import annotations

import os
from pathlib import Path

from drivetrain.training_scripts import train
from tests.faults.harness.launched import ATTEMPT, FOLDER
from tests.faults.harness.traces import listen_often, trace_steps

if __name__ == "__main__":
    trace_steps(Path(os.environ[FOLDER]) / f"trace-{os.environ[ATTEMPT]}-{os.environ['RANK']}.jsonl")
    listen_often()
    train.main()
