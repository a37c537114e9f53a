"""Execution.TrainingJobName and ProcessingJobName: the name of the job that the step itself starts."""

from __future__ import annotations

from typing import Any

from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import BUCKET, LocalRuns, join


def test_a_job_writes_below_its_own_name(runs: LocalRuns) -> None:
    name: Any = {"Get": "Execution.ProcessingJobName"}
    step = runs.processing("Prepare", "print('done')", arguments=["--job", join("job", name, on=" ")])
    loop: dict[str, Any] = {
        "Name": "Each",
        "Type": "ForEach",
        "Arguments": {"IterableItems": ["x"], "MaxConcurrency": 1, "ForEachBody": [{**step, "Name": "Inner"}]},
    }
    summary = runs.start([step, loop])
    assert summary.status == "Succeeded"
    with Ledger(runs.home) as ledger:
        rows = [row for row in ledger.steps(summary.execution) if row.type == "Processing"]
    given = [row.arguments["AppSpecification"]["ContainerArguments"][-1] for row in rows]
    assert given == [f"job {row.response['ProcessingJobName']}" for row in rows]
    assert len(set(given)) == 2


def test_a_training_job_likewise(runs: LocalRuns) -> None:
    program = "from pathlib import Path\nPath('/opt/ml/model/model').write_text('x')"
    place = {"S3OutputPath": join(f"{BUCKET}/out", {"Get": "Execution.TrainingJobName"})}
    step = runs.training("Train", program)
    step["Arguments"]["OutputDataConfig"] = place
    summary = runs.start([step])
    assert summary.status == "Succeeded"
    with Ledger(runs.home) as ledger:
        [row] = ledger.steps(summary.execution)
    assert row.response["ModelArtifacts"]["S3ModelArtifacts"].startswith(
        f"{BUCKET}/out/{row.response['TrainingJobName']}/"
    )
