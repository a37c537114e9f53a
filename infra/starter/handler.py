"""The starter Lambda: takes queued events, and starts each one's pipeline at most once.

Its trigger is an SQS queue with ReportBatchItemFailures, a batch of messages that the rules of
`drivetrain.triggers.resources` sent. A message that fails is delivered again, and at last put into the
queue of failed events: after the queue's visibility timeout each time, or at once where no repetition can mend it,
since it would hold up those behind it. One concurrent execution suffices, and makes rate limits exact.

It needs sagemaker:StartPipelineExecution and sagemaker:ListPipelineExecutions on the pipelines,
sqs:ChangeMessageVisibility on the queue, and the standard library and boto3 of the Lambda runtime. `bundle.py` packs it
with the files of `drivetrain` that it uses.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.triggers.starting import Earlier, Request, Skip, decide, looked_back, read_message


def handler(batch: Mapping[str, Any], context: object) -> dict[str, Any]:
    """The entry point for Lambda: give the ids of the messages that are to be delivered again."""
    return handle(batch, _sagemaker(), datetime.now(UTC))


@cache
def _sagemaker() -> Any:
    import boto3

    return boto3.client("sagemaker")


@cache
def _sqs() -> Any:
    import boto3

    return boto3.client("sqs")


def handle(batch: Mapping[str, Any], sagemaker: Any, now: datetime, sqs: Callable[[], Any] = _sqs) -> dict[str, Any]:
    """Start what the messages of a batch ask for, with a SageMaker client.

    Args:
        sqs: gives the client of the queue, which is asked for only where a message cannot be mended.

    A failure, whatever it is, is printed with its traceback and fails its message alone; in a FIFO queue also those
    after it, which must not overtake it
    (https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting).
    """
    failed: list[dict[str, str]] = []
    begun: dict[str, list[Earlier]] = {}
    for record in batch["Records"]:
        if failed and str(record.get("eventSourceARN", "")).endswith(".fifo"):
            failed.append({"itemIdentifier": record["messageId"]})
            continue
        try:
            said = _start(record["body"], sagemaker, now, begun)
        except Exception as error:
            traceback.print_exc()
            said = {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"}
            if _is_lasting(error):
                _deliver_at_once(record, sqs)
            failed.append({"itemIdentifier": record["messageId"]})
        print(json.dumps({"message": record["messageId"], **said}))
    return {"batchItemFailures": failed}


def _is_lasting(error: Exception) -> bool:
    """Return True if the same message fails so every time: it cannot be read, or asks for what the service does not
    take."""
    response: Any = getattr(error, "response", None)
    refused = isinstance(response, Mapping) and response.get("Error", {}).get("Code") == "ValidationException"  # type: ignore[reportUnknownMemberType]
    return isinstance(error, UserError) or refused


def _deliver_at_once(record: Mapping[str, Any], sqs: Callable[[], Any]) -> None:
    """Use the message's attempts up without waiting, so that it soon lies where people look."""
    try:
        client = sqs()
        account, name = str(record["eventSourceARN"]).split(":")[4:6]
        url = f"{client.meta.endpoint_url.rstrip('/')}/{account}/{name}"
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0)
    except Exception:  # the message is delivered again all the same, only later
        traceback.print_exc()


def _start(body: str, sagemaker: Any, now: datetime, begun: dict[str, list[Earlier]]) -> dict[str, Any]:
    request, event = read_message(body)
    known = {"trigger": request.trigger, "pipeline": request.pipeline, "event": event.get("id")}
    # What this batch began is added: the service's list may not have it yet.
    own = begun.setdefault(request.pipeline_arn, [])
    decision = decide(request, event, [*own, *_executions(request, sagemaker, now)], now)
    if isinstance(decision, Skip):
        return {**known, "outcome": "skipped", "reason": decision.reason}
    parallel: dict[str, Any] = {}
    if request.max_parallel_steps is not None:
        parallel = {"ParallelismConfiguration": {"MaxParallelExecutionSteps": request.max_parallel_steps}}
    answer = sagemaker.start_pipeline_execution(
        PipelineName=request.pipeline,
        PipelineExecutionDisplayName=decision.display_name,
        PipelineExecutionDescription=f"Started by trigger {request.trigger}",
        PipelineParameters=[{"Name": name, "Value": value} for name, value in sorted(decision.parameters.items())],
        ClientRequestToken=decision.token,
        **parallel,
    )
    own.append(Earlier(decision.display_name, now))
    return {**known, "outcome": "started", "execution": answer["PipelineExecutionArn"], "name": decision.display_name}


def _executions(request: Request, sagemaker: Any, now: datetime) -> Iterable[Earlier]:
    pages = sagemaker.get_paginator("list_pipeline_executions").paginate(
        PipelineName=request.pipeline, CreatedAfter=now - looked_back(request), SortOrder="Descending"
    )
    for page in pages:
        for summary in page["PipelineExecutionSummaries"]:
            yield Earlier(summary.get("PipelineExecutionDisplayName") or "", summary["StartTime"])
