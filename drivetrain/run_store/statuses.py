"""The statuses of executions, steps and attempts as they change, and what EventBridge would deliver of it, so that
rules can be tried on what was run here. All of it is entered inside a transaction of the writer.

The fields of events are those of the documented examples ("SageMaker Model Building Pipeline Execution (Step) Status
Change", https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html). Inferred:
`metadata` of other steps than processing jobs is as ListPipelineExecutionSteps has it, with small first letters; a step
comes from Starting; an attempt that is retried is no change of status; a step that is not executed gives no event; what
is stopped is Stopping first, as the statuses of DescribePipelineExecution and ListPipelineExecutionSteps have it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from drivetrain.base import partition_of
from drivetrain.base.records import dataclass
from drivetrain.catalog import EXECUTION_EVENT, STEP_EVENT
from drivetrain.catalog.quotas import MAX_JOB_NAME_CHARACTERS
from drivetrain.run_store.schema import dump

if TYPE_CHECKING:
    import sqlite3

# Step type -> the member of `metadata` that names its job, and where its ARN is in the answer of the describe call.
_JOBS: Mapping[str, tuple[str, str]] = {
    "Model": ("model", "ModelArn"),
    "Processing": ("processingJob", "ProcessingJobArn"),
    "RegisterModel": ("registerModel", "ModelPackageArn"),
    "Training": ("trainingJob", "TrainingJobArn"),
    "Transform": ("transformJob", "TransformJobArn"),
    "Tuning": ("tuningJob", "HyperParameterTuningJobArn"),
    "Lambda": ("lambda", "FunctionArn"),
    "AutoML": ("autoMLJob", "AutoMLJobArn"),
    "Endpoint": ("endpoint", "EndpointArn"),
    "EndpointConfig": ("endpointConfig", "EndpointConfigArn"),
    "InferenceComponent": ("inferenceComponent", "InferenceComponentArn"),
    "BedrockCustomModel": ("bedrockCustomModel", "ModelArn"),
    "BedrockCustomModelDeployment": ("bedrockCustomModelDeployment", "ModelDeploymentArn"),
    "BedrockModelImport": ("bedrockModelImport", "ImportedModelArn"),
    "BedrockProvisionedModelThroughput": ("bedrockProvisionedModelThroughput", "ProvisionedModelArn"),
}
# The same of steps that are no job: what of their answer stands there, as the answer has it.
_ANSWERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Callback": ("callback", ("CallbackToken", "SqsQueueUrl")),
    "ForEach": (
        "forEach",
        (
            *("Status", "InputItemCount", "TotalStepCount", "SucceededStepCount", "FailedStepCount"),
            *("StoppedStepCount", "Selector"),
        ),
    ),
}
_NAMED_BY_STEP: Mapping[str, str] = {"Processing": "processing-job", "Training": "training-job"}
_LONGEST_REASON = 1024
STOPPING = "Stopping"

# They stand in the ARNs of runs here, unless settings give others.
REGION, ACCOUNT = "us-east-1", "000000000000"
# How every job of a pipeline is called on the service, too.
JOB_PREFIX = "pipelines-"


@dataclass(frozen=True)
class Facts:
    """The identity of one execution; `started` in seconds since the epoch."""

    id: str
    pipeline: str
    region: str = REGION
    account: str = ACCOUNT
    started: float = 0.0

    def arn(self, resource: str, service: str = "sagemaker") -> str:
        return f"arn:{partition_of(self.region)}:{service}:{self.region}:{self.account}:{resource}"

    @property
    def pipeline_arn(self) -> str:
        return self.arn(f"pipeline/{self.pipeline.lower()}")

    @property
    def execution_arn(self) -> str:
        return f"{self.pipeline_arn}/execution/{self.id}"

    def job_name(self, step: str) -> str:
        """The name of a step's job. It says nothing of the attempt, so that a repeated one writes to the same place."""
        plain = re.sub(r"[^A-Za-z0-9]+", "-", step).strip("-")
        name = f"{JOB_PREFIX}{self.id}-{plain}"
        if plain == step and len(name) <= MAX_JOB_NAME_CHARACTERS:
            return name
        # What was changed or cut must not make two steps' names equal.
        mark = hashlib.sha256(step.encode()).hexdigest()[:8]
        return f"{name[: MAX_JOB_NAME_CHARACTERS - 9].rstrip('-')}-{mark}"


def tell_execution(
    db: sqlite3.Connection, facts: Facts, execution: str, before: str | None, *, status: str | None = None
) -> None:
    """Enter the event of the status that an execution has come to, in the transaction that made it so.

    Args:
        before: the status from which it came; Stopping where that was told last.
        status: one that only events have (Stopping); else that of its row.
    """
    now_is, started, ended = db.execute(
        "SELECT status, started, ended FROM executions WHERE id = ?", (execution,)
    ).fetchone()
    if last_told(db, execution, None) == STOPPING:
        before = STOPPING
    detail: dict[str, Any] = {
        "pipelineExecutionDisplayName": facts.id,
        "currentPipelineExecutionStatus": status or now_is,
        "previousPipelineExecutionStatus": before,
        "executionStartTime": moment(started),
        "executionEndTime": None if ended is None else moment(ended),
    }
    _enter(db, facts, execution, None, EXECUTION_EVENT, detail)


def tell_step(
    db: sqlite3.Connection, facts: Facts, execution: str, step: str, before: str | None, *, status: str | None = None
) -> None:
    """Enter the event of the status that a step has come to, in the transaction that made it so.

    Args:
        before: the status from which it came; Starting, Executing or Stopping, as it must be, unless given.
        status: one that only events have (Stopping); else that of its row.
    """
    kind, now_is, started, ended, response, cache_of, reason = db.execute(
        "SELECT type, status, started, ended, response, cache_of, reason FROM steps WHERE execution = ? AND name = ?",
        (execution, step),
    ).fetchone()
    if before is None:
        at_work = STOPPING if last_told(db, execution, step) == STOPPING else "Executing"
        before = "Starting" if now_is == "Executing" else at_work
    answer: Mapping[str, Any] = json.loads(response) if now_is != "Executing" else {}
    source = None if cache_of is None else f"{facts.pipeline_arn}/execution/{cache_of}"
    detail: dict[str, Any] = {
        "metadata": metadata(facts, step, kind, answer, reason),
        "stepStartTime": None if started is None else moment(started),
        "stepEndTime": None if ended is None else moment(ended),
        "stepName": step,
        "stepType": kind,
        "previousStepStatus": before,
        "currentStepStatus": status or ("Succeeded" if now_is == "Cached" else now_is),
        "cacheHitResult": None if source is None else {"sourcePipelineExecutionArn": source},
        "failureReason": None if reason is None else reason[:_LONGEST_REASON],
    }
    _enter(db, facts, execution, step, STEP_EVENT, detail)


def last_told(db: sqlite3.Connection, execution: str, step: str | None) -> str | None:
    """The status that was told last of an execution, or of a step of it."""
    sql = "SELECT event FROM events WHERE execution = ? AND step IS ? ORDER BY rowid DESC LIMIT 1"
    row = db.execute(sql, (execution, step)).fetchone()
    if row is None:
        return None
    detail = json.loads(row[0])["detail"]
    return detail["currentPipelineExecutionStatus" if step is None else "currentStepStatus"]


def metadata(
    facts: Facts, name: str, type_name: str, response: Mapping[str, Any], reason: str | None
) -> dict[str, Any]:
    """The `metadata` of a step's event: its job, or its answer."""
    if type_name == "Condition":
        return {"condition": {"outcome": response["Outcome"]}} if "Outcome" in response else {}
    if type_name == "Fail":
        return {"fail": {"errorMessage": reason}} if reason is not None else {}
    if type_name in _ANSWERS:
        member, fields = _ANSWERS[type_name]
        known = {field[:1].lower() + field[1:]: response[field] for field in fields if field in response}
        return {member: known} if known else {}
    if type_name not in _JOBS:
        return {}
    member, field = _JOBS[type_name]
    arn: Any = response.get(field)
    if not isinstance(arn, str) and type_name in _NAMED_BY_STEP:  # it is at work, or has not come to an answer
        arn = facts.arn(f"{_NAMED_BY_STEP[type_name]}/{facts.job_name(name)}")
    return {member: {"arn": arn}} if isinstance(arn, str) else {}


def _enter(
    db: sqlite3.Connection, facts: Facts, execution: str, step: str | None, kind: str, detail: Mapping[str, Any]
) -> None:
    now = time.time()
    event = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": kind,
        "source": "aws.sagemaker",
        "account": facts.account,
        "time": moment(now),
        "region": facts.region,
        "resources": [facts.pipeline_arn, facts.execution_arn],
        "detail": {
            **{key: value for key, value in detail.items() if value is not None},
            "pipelineArn": facts.pipeline_arn,
            "pipelineExecutionArn": facts.execution_arn,
        },
    }
    sql = "INSERT INTO events (execution, step, time, event) VALUES (?, ?, ?, ?)"
    db.execute(sql, (execution, step, now, dump(event)))


def moment(seconds: float) -> str:
    """As the service writes times."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def change(db: sqlite3.Connection, table: str, keys: Mapping[str, Any], **columns: Any) -> None:
    """Enter columns of the row of a table that has these keys."""
    new = ", ".join(f"{name} = ?" for name in columns)
    where = " AND ".join(f"{name} = ?" for name in keys)
    db.execute(f"UPDATE {table} SET {new} WHERE {where}", (*columns.values(), *keys.values()))


def change_step(db: sqlite3.Connection, execution: str, step: str, **columns: Any) -> None:
    """Enter columns of a step."""
    change(db, "steps", {"execution": execution, "name": step}, **columns)


def change_attempt(db: sqlite3.Connection, execution: str, step: str, number: int, **columns: Any) -> None:
    """Enter columns of an attempt at a step."""
    change(db, "attempts", {"execution": execution, "step": step, "number": number}, **columns)


def reopen(db: sqlite3.Connection, execution: str, kept: Collection[str], now: float) -> None:
    """Reset what has not been done; the failures in `kept` stay."""
    (ended,) = db.execute("SELECT ended FROM executions WHERE id = ?", (execution,)).fetchone()
    ended = now if ended is None else min(ended, now)  # the clock may have been set back
    db.execute(
        "UPDATE executions SET status = 'Executing', ended = NULL, reason = NULL, idle = COALESCE(idle, 0) + ? WHERE "
        "id = ?",
        (now - ended, execution),
    )
    db.execute(
        "UPDATE attempts SET status = 'Interrupted', ended = MAX(started, ?) WHERE execution = ? AND status = "
        "'Executing'",
        (ended, execution),
    )
    db.execute(
        "UPDATE steps SET status = NULL, started = NULL, ended = NULL, reason = NULL, value = NULL WHERE execution = ? "
        "AND status IN ('Executing', 'Failed', 'Stopped', 'NotExecuted') "
        f"AND COALESCE(parent, name) NOT IN ({', '.join('?' * len(kept))})",
        (execution, *kept),
    )


def next_attempt(db: sqlite3.Connection, execution: str, step: str, cache_key: str | None = None) -> int:
    """Enter one more attempt at a step; gives its number. `cache_key` is that of the first one of a process."""
    db.execute("UPDATE steps SET attempts = attempts + 1 WHERE execution = ? AND name = ?", (execution, step))
    sql = "SELECT attempts FROM steps WHERE execution = ? AND name = ?"
    number: int = db.execute(sql, (execution, step)).fetchone()[0]
    db.execute(
        "INSERT INTO attempts (execution, step, number, status, started, cache_key) "
        "VALUES (?, ?, ?, 'Executing', ?, ?)",
        (execution, step, number, time.time(), cache_key),
    )
    return number


def began_otherwise(db: sqlite3.Connection, execution: str, step: str, cache_key: str | None) -> bool:
    """True where an earlier attempt at a training had another key; what it kept may be gone on with."""
    sql = """
        SELECT 1 FROM attempts JOIN steps ON steps.execution = attempts.execution AND steps.name = attempts.step
        WHERE attempts.execution = ? AND step = ? AND type IN ('Training', 'Tuning') AND attempts.cache_key != ?
    """
    return db.execute(sql, (execution, step, cache_key)).fetchone() is not None
