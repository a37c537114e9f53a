"""An event on all triggers of a pipeline: what starts, with what, and what is said of the others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drivetrain import (
    Alarm,
    Limit,
    Parameter,
    Pipeline,
    PipelineFinished,
    RegistryEvent,
    Schedule,
    Upload,
    UserError,
)
from drivetrain.triggers.replay import Verdict, place, read_events, replay
from drivetrain.triggers.starting import Earlier

EVENTS = Path(__file__).parents[2] / "fixtures" / "events"
NOW = datetime(2026, 3, 4, 6, tzinfo=UTC)


def event(kind: str = "model_package", **detail: Any) -> dict[str, Any]:
    made = json.loads((EVENTS / f"{kind}.json").read_text())
    made["detail"].update(detail)
    return made


def pipeline(*triggers: Any) -> Pipeline:
    return Pipeline(name="retrain", parameters=[Parameter.string("Model", "none")], triggers=triggers)


APPROVED = RegistryEvent(name="approved", group="digits", parameters={"Model": "$.detail.ModelPackageArn"})


def answer(trigger: Any, given: dict[str, Any], **known: Any) -> Verdict:
    (found,) = replay(pipeline(trigger), given, now=NOW, **known)
    return found


def test_each_trigger_reports_its_outcome() -> None:
    triggers = [
        APPROVED,
        Schedule(name="nightly", rate="1 day"),
        PipelineFinished(name="features", pipeline="features"),
        Upload(name="data", bucket="arrivals"),
        Alarm(name="drift", alarm="d", enabled=False),
    ]
    found = {one.trigger: one for one in replay(pipeline(*triggers), event(), now=NOW)}
    assert [name for name, one in found.items() if one.starts] == ["approved"]
    assert found["approved"].parameters == {"Model": "arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/7"}
    assert found["approved"].reasons == () and len(found["approved"].token or "") == 64
    assert found["nightly"].reasons == ("it starts by the clock, not by events",)
    assert found["data"].reasons == ("it waits for other events: Object Created of aws.s3",)
    assert found["drift"].reasons[0] == "it is switched off (enabled=False)"
    by_end = {one.trigger: one for one in replay(pipeline(*triggers), event("pipeline_execution"), now=NOW)}
    assert [name for name, one in by_end.items() if one.starts] == ["features"]


def test_why_not_names_each_field() -> None:
    found = answer(APPROVED, event(ModelApprovalStatus="Rejected", UpdatedModelPackageFields=["ModelCard"]))
    assert found.reasons == (
        'detail.ModelApprovalStatus is "Rejected"; wanted: "Approved"',
        'detail.UpdatedModelPackageFields is "ModelCard"; wanted: "ModelApprovalStatus"',
    )


def test_the_loop_guard_is_explained_once() -> None:
    by = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/retrain/execution/abc"
    given = event(MetadataProperties={"GeneratedBy": by})
    assert answer(APPROVED, given).reasons == (
        f"loop guard: the model was registered by this pipeline's own execution {by}",
    )
    assert answer(APPROVED.model_copy(update={"loop_guard": False}), given).starts


def test_a_start_that_would_fail_is_reported() -> None:
    trigger = APPROVED.model_copy(update={"parameters": {"Model": "$.detail.Nope"}})
    (reason,) = answer(trigger, event()).reasons
    assert reason.startswith("the start would fail: The event has nothing at $.detail.Nope")


def test_earlier_starts_count_for_limits() -> None:
    first = answer(APPROVED, event())
    before = [Earlier(f"approved-{(first.token or '')[:12]}", NOW)]
    assert "duplicate" in answer(APPROVED, event(), earlier=before).reasons[0]
    limited = APPROVED.model_copy(update={"limit": Limit(starts=1, every="1 hour")})
    assert "rate limit" in answer(limited, event(), earlier=[Earlier("approved-0123456789ab", NOW)]).reasons[0]


def test_the_account_comes_from_the_event() -> None:
    assert place(event()).pipeline_arn("p") == "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/p"
    assert place({"region": "cn-north-1", "account": "1"}).partition == "aws-cn"
    assert place({"region": "us-gov-west-1", "account": "1"}).partition == "aws-us-gov"
    with pytest.raises(UserError, match="no account and region"):
        replay(pipeline(APPROVED), {"detail-type": "x"})


@pytest.mark.parametrize(
    ("given", "count"),
    [(event(), 1), ([event(), event("training_job")], 2), ({"a": event(), "b": event("pipeline_step")}, 2)],
)
def test_files_of_events(given: Any, count: int) -> None:
    assert len(read_events(json.dumps(given), "e.json")) == count


@pytest.mark.parametrize("text", ["[]", "{}", "3", "null", '[{"source": "x"}]', '{"a": 1}', '{"a": {"b": {}}}', "{"])
def test_files_without_events_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"e\.json"):
        read_events(text, "e.json")


def test_a_file_may_hold_more_than_one_event_may() -> None:
    padded = {**event(), "padding": "x" * 300_000}
    assert len(read_events(json.dumps([padded] * 5), "e.json")) == 5
    large = {**event(), "id": "large", "padding": "x" * 1_100_000}
    with pytest.raises(
        UserError, match=r"e\.json: event 'large' has 1,10\d,\d{3} bytes; EventBridge takes at most 1,0"
    ):
        read_events(json.dumps([event(), large]), "e.json")
    with pytest.raises(UserError, match=r"e\.json has 16,777,217 bytes; at most 16,777,216 are read"):
        read_events(" " * (16 * 1_048_576 + 1), "e.json")


def test_too_many_events() -> None:
    with pytest.raises(UserError, match="at most 1,000"):
        read_events(json.dumps([{"detail-type": ""}] * 1_001), "e.json")
