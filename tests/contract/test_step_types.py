"""What every step type does on this machine: run for each type of targets/sagemaker/run/step_types, with the case that
the file of its name in tests/contract/step_types offers for it:

    steps(runs)     a definition's steps, of which one is named `it` and of the type
    options(folder) what `runs.start` needs beside them; nothing unless given
    made(runs)      asserts what it has brought
    SAYS            paths of what its describe call says, which other steps may refer to
    refused(runs)   the same with `it` as it cannot run; a type without it that is not run here is refused as it is
    ENDS            how the execution ends and why; Succeeded unless given
    CAN_BE_STUBBED  False where nothing can stand for it
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import parse_path
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.document import descend
from drivetrain.targets.sagemaker.document.service import property_type
from drivetrain.targets.sagemaker.run import step_types
from drivetrain.targets.sagemaker.run.step_types._absent import ABSENT
from tests.fixtures.local_runs import LocalRuns

CASES = Path(__file__).parent / "step_types"
TYPES = step_types.known()
# Their programs need PySpark (`make test-in ENV=spark`). They differ in how they are asked for: one runs by day.
ON_SPARK = {"emr": (pytest.mark.spark,), "emr_serverless": (pytest.mark.spark, pytest.mark.nightly)}
# A run that waits for what never comes shall not wait for long.
pytestmark = pytest.mark.timeout(120)


def case_of(file: str) -> ModuleType:
    path = CASES / f"{file}.py"
    assert path.is_file(), f"add {path}: steps(runs) with a step 'it' of type {TYPES[file]}, and what it SAYS"
    spec = importlib.util.spec_from_file_location(f"step_type_{file}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_absent(file: str) -> bool:
    return TYPES[file] in ABSENT


@pytest.fixture
def runs(tmp_path: Path) -> LocalRuns:
    return LocalRuns(tmp_path)


def options(case: ModuleType, folder: Path) -> dict[str, Any]:
    given = getattr(case, "options", None)
    return {} if given is None else given(folder)


def of_it(steps: list[dict[str, Any]], file: str) -> dict[str, Any]:
    [step] = [step for step in steps if step["Name"] == "it"]
    assert step["Type"] == TYPES[file]
    return step


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=ON_SPARK.get(file, ())) for file in TYPES if not is_absent(file)],
)
def test_a_step_runs_and_answers_like_its_describe_call(runs: LocalRuns, tmp_path: Path, file: str) -> None:
    if file in ON_SPARK:
        pytest.importorskip("pyspark")  # nightly tests run without it, too
    case = case_of(file)
    steps = case.steps(runs)
    of_it(steps, file)
    summary = runs.start(steps, **options(case, tmp_path))
    assert (summary.status, summary.reason) == getattr(case, "ENDS", ("Succeeded", None))
    assert_says(runs, case, file)
    getattr(case, "made", lambda runs: None)(runs)


@pytest.mark.parametrize("file", TYPES)
def test_a_stub_replaces_a_step_and_is_marked(runs: LocalRuns, tmp_path: Path, file: str) -> None:
    case = case_of(file)
    steps = case.steps(runs)
    if not getattr(case, "CAN_BE_STUBBED", True):
        with pytest.raises(UserError, match=rf"--stub it: a {TYPES[file]} step decides at once"):
            runs.start(steps, stubs={"it": {}})
        return
    stub = {"Beside": {"said": "by the stub"}}
    if not is_absent(file) and file not in ON_SPARK:  # what the step would have to do to say it is not done
        stub |= said_before(runs, case, tmp_path)
    summary = runs.start(steps, **options(case, tmp_path), stubs={"it": stub}, cache=False)
    assert (summary.status, summary.reason) == ("Succeeded", None)
    row = assert_says(runs, case, file)
    assert row.value == "stubbed" and row.response["Beside"] == {"said": "by the stub"}
    assert not list(runs.home.run(summary.execution).glob("it*/attempt-*/logs/*.log"))


def said_before(runs: LocalRuns, case: ModuleType, folder: Path) -> dict[str, Any]:
    """What the step says when it runs, as JSON: a recorded answer."""
    runs.start(case.steps(runs), **options(case, folder))
    with Ledger(runs.home) as ledger:
        return json.loads(json.dumps(dict(ledger.step(ledger.execution("latest").id, "it").response)))


@pytest.mark.parametrize("file", TYPES)
def test_unsupported_steps_are_refused_before_anything_starts(runs: LocalRuns, tmp_path: Path, file: str) -> None:
    case = case_of(file)
    wrong = case.steps if is_absent(file) else getattr(case, "refused", None)
    if wrong is None:
        pytest.skip("nothing can be wrong with it")
    steps = wrong(runs)
    of_it(steps, file)
    with pytest.raises(UserError) as caught:
        runs.start(steps, **options(case, tmp_path))
    said = str(caught.value)
    assert "'it'" in said and any(word in said for word in ("--stub it=outputs.json", "Allowed", "--data")), said
    assert all(len(line) < 700 for line in said.splitlines())
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []


@pytest.mark.parametrize("file", [file for file in TYPES if is_absent(file)])
def test_steps_that_need_the_account_name_the_option_to_use(runs: LocalRuns, file: str) -> None:
    case = case_of(file)
    with pytest.raises(UserError, match=rf"step 'it' \({TYPES[file]}\) needs .*--stub it=outputs\.json"):
        runs.start(case.steps(runs))
    assert runs.start(case.steps(runs), stubs={"it": {}}).status == "Succeeded"
    assert_says(runs, case, file)


def assert_says(runs: LocalRuns, case: ModuleType, file: str) -> Any:
    """The latest execution's `it`, which says all that it must."""
    with Ledger(runs.home) as ledger:
        row = ledger.step(ledger.execution("latest").id, "it")
    for path in getattr(case, "SAYS", ()):
        found = descend(dict(row.response), parse_path(path))
        assert found not in (None, ""), path
        property_type(TYPES[file], path)  # raises where no describe call of the service says it
    return row
