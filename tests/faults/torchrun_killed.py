"""SIGKILL the runner in the middle of a real torchrun training, whose ranks live in sessions of their own."""

from __future__ import annotations

import json
import tarfile

from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from tests.faults.harness import killing
from tests.faults.harness.families import Found, Trial

FAULT = "local runner killed inside a torchrun training: no process lives 5 s later"
TRIALS = 5
QUICK = 1
AT_ONCE = 2
PATIENCE_S = 400.0
_PATIENCE_S = 120.0
_RANKS = 2


def trial(given: Trial, shared: None) -> Found:
    home = Home(given.folder / "home")
    steps_seen = given.draw.randrange(1, 30)
    left = killing.kill_when(lambda: _steps_logged(home) >= steps_seen, _PATIENCE_S, home.root, "torch")
    violations = [f"lives 5 s after the kill: {process}" for process in left]
    code, said = killing.run(home.root, "torch")
    if code != 0:
        return Found([*violations, f"the resumed run ended with {code}: {said.strip()[-500:]}"])
    with Ledger(home) as ledger:
        [execution] = ledger.executions()
        [step] = ledger.steps(execution.id)
        attempts = [attempt.status for attempt in ledger.attempts(execution.id)]
    if attempts != ["Interrupted", "Succeeded"]:
        violations.append(f"attempts {attempts} instead of one interrupted and one that succeeded")
    model = ObjectStore(home.objects).path(step.response["ModelArtifacts"]["S3ModelArtifacts"])
    with tarfile.open(model) as archive:
        written = {member.name: archive.extractfile(member) for member in archive}
        launches = {name: file.read().decode() for name, file in written.items() if file is not None}
    if len(launches) != _RANKS or len(set(launches.values())) != 1:
        violations.append(f"the model's files were not written by one launch: {json.dumps(launches)}")
    return Found(violations)


def _steps_logged(home: Home) -> int:
    return sum(log.read_text().count("step=") for log in home.runs.glob("*/train/attempt-1/logs/*.log")) // _RANKS
