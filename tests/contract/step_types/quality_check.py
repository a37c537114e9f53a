"""QualityCheck, by our own engine: its baseline is what was supplied, or what it calculates itself."""

from __future__ import annotations

import json
from typing import Any

from tests.fixtures.local_runs import BUCKET, LocalRuns

SAYS = ("CheckType", "CalculatedBaselineConstraints", "BaselineUsedForDriftCheckConstraints", "CheckJobArn")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    """As the SDK's QualityCheckStep writes it."""
    local = "/opt/ml/processing"
    data = runs.put("data/rows.csv", "age,plan\n1,a\n2,b\n3,a\n")
    step = runs.processing("it", "", inputs={"baseline_dataset_input": data}, outputs=["quality_check_output"])
    del step["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    step["Arguments"]["Environment"] = {
        "dataset_format": '{"csv": {"header": true, "output_columns_position": "START"}}',
        "dataset_source": f"{local}/input/baseline_dataset_input",
        "output_path": f"{local}/output",
        "publish_cloudwatch_metrics": "Disabled",
    }
    step["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["LocalPath"] = f"{local}/output"
    features = [{"name": name, "inferred_type": kind, "completeness": 1.0} for name, kind in COLUMNS.items()]
    supplied = runs.put("old/constraints.json", json.dumps({"version": 0.0, "features": features}))
    check = {"CheckType": "DATA_QUALITY", "SkipCheck": False, "RegisterNewBaseline": False}
    return [{**step, **check, "Type": "QualityCheck", "SuppliedBaselineConstraints": supplied}]


COLUMNS = {"age": "Integral", "plan": "String"}


def made(runs: LocalRuns) -> None:
    [found] = [item for item in runs.store.find(f"{BUCKET}/runs") if item.name.endswith("constraint_violations.json")]
    assert json.loads(found.path.read_text()) == {"violations": []}


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["Arguments"]["Environment"]["dataset_format"] = '{"sagemakerCaptureJson": {}}'
    return [step]
