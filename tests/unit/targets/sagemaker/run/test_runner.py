"""The runner as a whole: definitions as they are found in public, run to their end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import ExecutionFinished, ExecutionStarted, StepFinished, StepStarted
from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import BUCKET, LocalRuns, output_of

WRITE = """
from pathlib import Path
import sys
for folder in Path("/opt/ml/processing/output").iterdir():
    (folder / "x.txt").write_text(" ".join(sys.argv[1:]))
"""
COPY = """
from pathlib import Path
text = Path("/opt/ml/processing/input/data/x.txt").read_text()
Path("/opt/ml/processing/output/out/x.txt").write_text(text + "!")
"""


def three_steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [
        runs.processing("a", WRITE, outputs=["out"], arguments=["hello"]),
        runs.processing("b", COPY, inputs={"data": output_of("a", "out")}, outputs=["out"]),
        runs.processing("c", COPY, inputs={"data": output_of("b", "out")}, outputs=["out"]),
    ]


def test_three_steps_run_in_order_and_pass_their_data_on(runs: LocalRuns) -> None:
    summary = runs.start(three_steps(runs))
    assert summary.status == "Succeeded"
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/c/out/x.txt") == "hello!!"
    assert [type(event) for event in runs.events] == [
        ExecutionStarted,
        *[StepStarted, StepFinished] * 3,
        ExecutionFinished,
    ]
    assert [event.step for event in runs.of(StepStarted)] == ["a", "b", "c"]


def test_the_ledger_knows_parameters_artifacts_checksums_and_lineage(runs: LocalRuns) -> None:
    steps = three_steps(runs)
    steps[0]["Arguments"]["AppSpecification"]["ContainerArguments"] = [{"Get": "Parameters.word"}]
    summary = runs.start(steps, {"word": "hi"}, parameters=[{"Name": "word", "Type": "String"}])
    with Ledger(runs.home) as ledger:
        row = ledger.execution("latest")
        assert (row.id, row.status, row.parameters) == (summary.execution, "Succeeded", {"word": "hi"})
        artifacts = {(a.step, a.flow, a.name): a for a in ledger.artifacts(row.id)}
        read, written = artifacts["b", "input", "data"], artifacts["a", "output", "out"]
        assert (read.from_execution, read.from_step) == (row.id, "a")
        assert read.digest == written.digest
        [written_object] = ledger.objects(row.id, "a")
        assert written_object.bytes == 2
        import hashlib

        assert written_object.sha256 == hashlib.sha256(b"hi").hexdigest()
        [step, *_] = ledger.steps(row.id)
        assert step.arguments["AppSpecification"]["ContainerArguments"] == ["hi"]
        assert step.response["ProcessingJobStatus"] == "Completed"
        assert step.seconds is not None and step.seconds > 0


def test_shell_metacharacters_in_arguments_are_only_text(runs: LocalRuns, tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    words = [f"$(touch {pwned})", f"; touch {pwned}", f"`touch {pwned}`", "*", "a b", "--x=$HOME"]
    summary = runs.start([runs.processing("a", WRITE, outputs=["out"], arguments=words)])
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/a/out/x.txt") == " ".join(words)
    assert not pwned.exists()


def test_a_failure_leaves_other_branches_alone_and_skips_what_needs_it(runs: LocalRuns) -> None:
    steps = [
        runs.processing("bad", "raise SystemExit('no luck')", outputs=["out"]),
        runs.processing("after", COPY, inputs={"data": output_of("bad", "out")}, outputs=["out"]),
        runs.processing("other", WRITE, outputs=["out"]),
        runs.processing("later", COPY, inputs={"data": output_of("other", "out")}, outputs=["out"]),
    ]
    summary = runs.start(steps)
    assert summary.status == "Failed"
    assert summary.reason is not None and summary.reason.startswith("bad: ") and "no luck" in summary.reason
    assert runs.statuses() == {"bad": "Failed", "after": "NotExecuted", "other": "Succeeded", "later": "Succeeded"}
    skipped = next(event for event in runs.of(StepFinished) if event.step == "after")
    assert skipped.reason == "bad failed"


def test_resuming_a_failed_run_repeats_only_what_failed(runs: LocalRuns) -> None:
    flag = runs.put("flags/go.txt", "no")
    program = """
        from pathlib import Path
        assert Path("/opt/ml/processing/input/flag/go.txt").read_text() == "yes", "not yet"
        Path("/opt/ml/processing/output/out/x.txt").write_text("went")
    """
    steps = [
        runs.processing("a", WRITE, outputs=["out"]),
        runs.processing("b", program, inputs={"flag": flag}, outputs=["out"], DependsOn=["a"]),
    ]
    first = runs.start(steps)
    assert first.status == "Failed"
    runs.put("flags/go.txt", "yes")
    second = runs.resume()
    assert (second.execution, second.status) == (first.execution, "Succeeded")
    assert runs.of(ExecutionStarted)[0].finished == ("a",)
    assert [event.step for event in runs.of(StepStarted)] == ["b"]
    assert runs.of(StepStarted)[0].attempt == 2
    with pytest.raises(UserError, match="has succeeded"):
        runs.resume()


def test_every_unsupported_step_is_reported_before_anything_starts(runs: LocalRuns) -> None:
    steps = [
        runs.processing("a", WRITE, outputs=["out"]),
        {"Name": "cluster", "Type": "EMR", "Arguments": {}},
        runs.processing("b", COPY, inputs={"data": "s3://elsewhere/data"}, outputs=["out"]),
    ]
    del steps[0]["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    with pytest.raises(UserError) as caught:
        runs.start(steps)
    text = str(caught.value)
    assert "step 'cluster' (EMR) needs an EMR cluster" in text and "--stub cluster=outputs.json" in text
    assert "step 'a' names no ContainerEntrypoint" in text and "--image-command" in text
    assert "s3://elsewhere/data" in text and "--data s3://elsewhere/data=LOCAL_PATH" in text
    assert runs.events == []
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []


def test_a_bad_reference_parameter_and_cycle_are_refused(runs: LocalRuns) -> None:
    step = runs.processing("a", WRITE, outputs=["out"], arguments=[{"Get": "Parameters.epochs"}])
    with pytest.raises(UserError, match="epochs"):
        runs.start([step])
    declared = [{"Name": "epochs", "Type": "Integer"}]
    with pytest.raises(UserError, match="no value for epochs"):
        runs.start([step], parameters=declared)
    with pytest.raises(UserError, match="whole number"):
        runs.start([step], {"epochs": "many"}, parameters=declared)
    cycle = [
        runs.processing("a", COPY, inputs={"data": output_of("b", "out")}, outputs=["out"]),
        runs.processing("b", COPY, inputs={"data": output_of("a", "out")}, outputs=["out"]),
    ]
    with pytest.raises(UserError, match=r"(a -> b -> a)|(b -> a -> b)"):
        runs.start(cycle)


def test_a_step_name_that_would_leave_the_folder_is_refused(runs: LocalRuns) -> None:
    step = runs.processing("a", WRITE, outputs=["out"])
    step["Name"] = "../a"
    with pytest.raises(UserError, match=r"\.\./a"):
        runs.start([step])


def test_the_users_environment_and_secrets_reach_nothing(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "canary-of-the-user")
    program = """
        import json, os
        from pathlib import Path
        Path("/opt/ml/processing/output/out/environment.json").write_text(json.dumps(sorted(os.environ)))
        assert os.environ["DB_PASSWORD"] == "canary-of-the-step"
    """
    step = runs.processing(
        "a", program, outputs=["out"], environment={"DB_PASSWORD": "canary-of-the-step", "EPOCHS": "3"}
    )
    summary = runs.start([step])
    assert summary.status == "Succeeded"
    names = json.loads(runs.read(f"{BUCKET}/runs/{summary.execution}/a/out/environment.json"))
    assert "DB_PASSWORD" in names and "MY_API_TOKEN" not in names
    kept = b"".join(path.read_bytes() for path in runs.home.root.glob("ledger.db*"))
    assert b"canary-of-the-step" not in kept
    assert b"EPOCHS" in kept
    logs = [path for path in runs.home.runs.rglob("*") if path.is_file() and path.suffix in (".log", ".json")]
    request = {runs.home.run(summary.execution) / name for name in ("definition.json", "request.json")}
    assert not [path for path in logs if path not in request and b"canary" in path.read_bytes()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in request)
