"""Callback: asks, and a handler answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("SqsQueueUrl", "OutputParameters['approved']")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [
        {
            "Name": "it",
            "Type": "Callback",
            "SqsQueueUrl": "https://sqs.us-east-1.amazonaws.com/000000000000/reviews",
            "Arguments": {"model": "m"},
            "OutputParameters": [{"OutputName": "approved", "OutputType": "Boolean"}],
        }
    ]


def options(folder: Path) -> dict[str, Any]:
    (folder / "answers.py").write_text("def yes(message, context):\n    return {'approved': True}\n")
    return {"callbacks": {"it": f"{folder / 'answers.py'}:yes"}}


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    del step["SqsQueueUrl"]
    return [step]
