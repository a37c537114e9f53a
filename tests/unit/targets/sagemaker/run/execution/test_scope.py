"""What expressions see of finished steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.statuses import Facts
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope
from tests.fixtures.local_runs import LocalRuns


@pytest.fixture
def scope(runs: LocalRuns) -> ExecutionScope:
    step: dict[str, Any] = {"Name": "Ask", "Type": "Lambda", "Arguments": {}}
    facts = Facts(id="e", pipeline="p", region="us-east-1", account="000000000000", started=0.0)
    return ExecutionScope(read(json.dumps({"Steps": [step]})), facts, {}, runs.store)


def test_running_and_resumed_executions_hide_secrets_alike(scope: ExecutionScope) -> None:
    """What the ledger has not kept, a resumed execution would not find."""
    scope.finished("Ask", {"OutputParameters": {"api_token": "hush-hush-hush", "n": 4}})
    assert scope.arguments({"n": {"Get": "Steps.Ask.OutputParameters['n']"}}) == {"n": 4}
    with pytest.raises(UserError, match="a value that is kept nowhere, since it looks like a secret"):
        scope.arguments({"key": {"Get": "Steps.Ask.OutputParameters['api_token']"}})
    assert "hush" not in str(scope.responses)
