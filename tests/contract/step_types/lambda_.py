"""Lambda: a handler of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("OutputParameters['doubled']",)


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [
        {
            "Name": "it",
            "Type": "Lambda",
            "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:double",
            "Arguments": {"number": 21},
            "OutputParameters": [{"OutputName": "doubled", "OutputType": "Integer"}],
        }
    ]


def options(folder: Path) -> dict[str, Any]:
    (folder / "handlers.py").write_text("def double(event, context):\n    return {'doubled': 2 * event['number']}\n")
    return {"functions": {"double": f"{folder / 'handlers.py'}:double"}}


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["FunctionArn"] = "arn:aws:lambda:us-east-1:000000000000:function:unknown"
    return [step]
