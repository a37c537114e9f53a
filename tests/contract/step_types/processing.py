"""Processing: a program of the user's."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import BUCKET, LocalRuns

SAYS = ("ProcessingJobName", "ProcessingJobStatus", "ProcessingOutputConfig.Outputs['out'].S3Output.S3Uri")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [runs.processing("it", "open('/opt/ml/processing/output/out/x', 'w').write('x')", outputs=["out"])]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    return [runs.processing("it", "", inputs={"data": f"{BUCKET}/nothing/"})]
