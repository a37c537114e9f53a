"""What is decided about an event: once for each change, never for the pipeline's own models, not too often."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.decision.served_findings import DATA_DRIFT, Finding
from drivetrain.triggers.event_values import ParameterSource
from drivetrain.triggers.starting import (
    Earlier,
    Request,
    Skip,
    Start,
    decide,
    is_execution_of,
    looked_back,
    read_message,
    token,
)

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/retrain"
REQUEST = Request(trigger="approved", pipeline="retrain", pipeline_arn=ARN)
EVENTS = Path(__file__).parents[2] / "fixtures" / "events"
NOW = datetime(2026, 3, 4, 6, tzinfo=UTC)


def event(kind: str = "model_package", **detail: Any) -> dict[str, Any]:
    made = json.loads((EVENTS / f"{kind}.json").read_text())
    made["detail"].update(detail)
    return made


def started(request: Request, given: dict[str, Any], *earlier: Earlier, now: datetime = NOW) -> Start:
    found = decide(request, given, earlier, now)
    assert isinstance(found, Start), found
    return found


def skipped(request: Request, given: dict[str, Any], *earlier: Earlier, now: datetime = NOW) -> str:
    found = decide(request, given, earlier, now)
    assert isinstance(found, Skip), found
    return found.reason


def test_a_start_request_is_built() -> None:
    request = Request(
        trigger="approved",
        pipeline="retrain",
        pipeline_arn=ARN,
        parameters={
            "Model": ParameterSource("String", "$.detail.ModelPackageArn"),
            "Mode": ParameterSource("String", "full"),
        },
    )
    found = started(request, event())
    assert found.parameters == {
        "Model": "arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/7",
        "Mode": "full",
    }
    assert len(found.token) == 64 and found.display_name == f"approved-{found.token[:12]}"


def test_a_second_delivery_names_the_first_execution() -> None:
    first = started(REQUEST, event())
    again = event()
    again["id"] = "another-id"  # the service may tell of one change in two events
    assert "duplicate" in skipped(REQUEST, again, Earlier(first.display_name, NOW))


@pytest.mark.parametrize(
    "change",
    [
        {"ModelPackageArn": "arn:aws:sagemaker:eu-west-1:123456789012:model-package/digits/8"},
        {"UpdatedModelPackageFields": ["ModelApprovalStatus"]},
        {"ModelApprovalStatus": "Rejected"},
        {"ModelLifeCycle": {"Stage": "Production", "StageStatus": "Approved"}},
        {"LastModifiedTime": "2026-03-04T05:06:07Z"},
    ],
)
def test_different_changes_have_different_tokens(change: dict[str, Any]) -> None:
    assert token(REQUEST, event(**change), NOW) != token(REQUEST, event(), NOW)


def test_irrelevant_fields_do_not_change_the_token() -> None:
    same = event(UpdatedModelPackageFields=["ApprovalDescription", "ModelApprovalStatus"], CertifyForMarketplace=True)
    same["id"], same["time"] = "x", "2026-03-05T00:00:00Z"
    assert token(REQUEST, same, NOW + timedelta(days=1)) == token(REQUEST, event(), NOW)


def test_triggers_and_pipelines_have_tokens_of_their_own() -> None:
    others = [
        Request(trigger="other", pipeline="retrain", pipeline_arn=ARN),
        Request(trigger="approved", pipeline="retrain2", pipeline_arn=ARN + "2"),
    ]
    assert len({token(request, event(), NOW) for request in (REQUEST, *others)}) == 3


def test_other_events_are_identified_by_their_id() -> None:
    one, two = event("pipeline_execution"), event("pipeline_execution")
    assert token(REQUEST, one, NOW) == token(REQUEST, two, NOW)
    two["id"] = "other"
    assert token(REQUEST, one, NOW) != token(REQUEST, two, NOW)
    del two["id"]
    with pytest.raises(UserError, match="has no id"):
        token(REQUEST, two, NOW)


def test_a_finding_that_a_repeated_job_sends_again_is_the_same() -> None:
    def sent(id: str, told_at: float, columns: tuple[str, ...] = ("age",)) -> dict[str, Any]:
        found = Finding(kind=DATA_DRIFT, group="g", version=1, day="2026-03-04", told_at=told_at, columns=columns)
        return {**found.event(region="eu-west-1", account="123456789012"), "id": id}  # EventBridge's own

    first = Earlier(started(REQUEST, sent("a", 1.0)).display_name, NOW)
    assert "duplicate" in skipped(REQUEST, sent("b", 1.0), first)
    started(REQUEST, sent("c", 2.0), first)


@pytest.mark.parametrize(
    ("by", "own"),
    [
        (f"{ARN}/execution/a1b2c3", True),
        (f"{ARN.replace('retrain', 'ReTrain')}/execution/a1b2c3", True),
        (f"{ARN}2/execution/a1b2c3", False),
        (ARN, False),
        ("arn:aws:sagemaker:eu-west-1:123456789012:pipeline/other/execution/a", False),
        (None, False),
    ],
)
def test_the_loop_guard(by: str | None, own: bool) -> None:
    given = event(MetadataProperties={} if by is None else {"GeneratedBy": by})
    assert is_execution_of(by, ARN) is own
    if own:
        assert "loop guard" in skipped(REQUEST, given)
    else:
        started(REQUEST, given)
    off = Request(trigger="approved", pipeline="retrain", pipeline_arn=ARN, loop_guard=False)
    started(off, given)


@pytest.mark.parametrize(
    "detail", [None, "text", {"MetadataProperties": None}, {"MetadataProperties": {"GeneratedBy": 3}}]
)
def test_events_without_an_originator_pass_the_loop_guard(detail: Any) -> None:
    given = event()
    given["detail"] = detail
    started(REQUEST, given)


def test_the_rate_limit_counts_starts_of_this_trigger_in_the_period() -> None:
    request = Request(trigger="approved", pipeline="retrain", pipeline_arn=ARN, starts=2, seconds=3_600)
    recent = Earlier("approved-0123456789ab", NOW - timedelta(minutes=59))
    old = Earlier("approved-ba9876543210", NOW - timedelta(minutes=60))
    others = [
        Earlier("approved-2-0123456789ab", NOW),
        Earlier("by hand", NOW),
        Earlier("approved-by-hand", NOW),
        Earlier("other-0123456789ab", NOW),
    ]
    started(request, event(), recent, old, *others)
    assert "rate limit: 2 starts in the last 3,600 s; at most 2" in skipped(
        request, event(), recent, old, Earlier("approved-111111111111", NOW)
    )
    started(request, event(), recent, recent)  # of a batch, and of the service's list


def test_events_of_one_slot_start_once() -> None:
    request = Request(trigger="data", pipeline="retrain", pipeline_arn=ARN, window_seconds=600)
    first, second, late, next_slot = (event("pipeline_execution") for _ in range(4))
    for place, one in enumerate((first, second, late, next_slot)):
        one["id"] = str(place)
    second["time"] = "2026-03-04T06:09:59Z"
    next_slot["time"] = "2026-03-04T06:10:00Z"
    begun = started(request, first)
    assert "duplicate" in skipped(request, second, Earlier(begun.display_name, NOW))
    # A late delivery belongs to the slot in which the event happened.
    assert "duplicate" in skipped(request, late, Earlier(begun.display_name, NOW), now=NOW + timedelta(hours=3))
    started(request, next_slot, Earlier(begun.display_name, NOW))
    del late["time"]
    assert started(request, late, now=datetime(2026, 3, 4, 6, 1, tzinfo=UTC)).token == begun.token


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({f"P{number}": ParameterSource("String", "x") for number in range(201)}, "201 parameters"),
        ({"P": ParameterSource("String", "x" * 1_025)}, "1,025 characters"),
    ],
)
def test_values_beyond_service_limits_are_refused(given: dict[str, ParameterSource], said: str) -> None:
    with pytest.raises(UserError, match=said):
        decide(Request(trigger="a", pipeline="retrain", pipeline_arn=ARN, parameters=given), event(), (), NOW)


def test_a_missing_value_is_reported() -> None:
    request = Request(
        trigger="approved",
        pipeline="retrain",
        pipeline_arn=ARN,
        parameters={"M": ParameterSource("String", "$.detail.Nope")},
    )
    with pytest.raises(UserError, match="has no 'Nope'"):
        decide(request, event(), (), NOW)


def test_the_look_back_period() -> None:
    assert looked_back(REQUEST) == timedelta(days=2)
    weekly = Request(trigger="a", pipeline="p", pipeline_arn=ARN, starts=1, seconds=7 * 86_400)
    assert looked_back(weekly) == timedelta(days=7)


_texts = st.text(min_size=1, max_size=10)
_numbers = st.one_of(st.none(), st.integers(1, 10**6))


@given(
    st.builds(
        lambda pipeline, **more: Request(pipeline=pipeline, pipeline_arn=f"x:pipeline/{pipeline}", **more),
        trigger=_texts,
        pipeline=_texts.filter(lambda text: ":pipeline/" not in text),
        parameters=st.dictionaries(
            _texts, st.builds(ParameterSource, _texts, _texts, st.lists(_texts, max_size=2).map(tuple)), max_size=2
        ),
        loop_guard=st.booleans(),
        starts=_numbers,
        seconds=_numbers,
        window_seconds=_numbers,
        max_parallel_steps=_numbers,
    )
)
def test_a_request_round_trips_as_a_message(request_: Request) -> None:
    text = json.dumps({"trigger": request_.to_json(), "event": {"id": "1"}})
    assert read_message(text) == (request_, {"id": "1"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"event": {}}',
        '{"trigger": {}, "event": {}}',
        '{"trigger": "x", "event": {}}',
        '{"trigger": {"trigger": "a", "pipeline": "p", "pipeline_arn": ":pipeline/p", "parameters": []}, "event": {}}',
        '{"trigger": {"trigger": "a", "pipeline": "p", "pipeline_arn": ":pipeline/p", "starts": "x"}, "event": {}}',
        '{"trigger": {"trigger": "a", "pipeline": "p", "pipeline_arn": ":pipeline/p"}, "event": []}',
        '{"trigger": {"trigger": "a", "pipeline": "p", "pipeline_arn": ":pipeline/q"}, "event": {}}',
    ],
)
def test_invalid_messages_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="message"):
        read_message(text)


def test_deciding_changes_nothing() -> None:
    given = event()
    before = copy.deepcopy(given)
    assert decide(REQUEST, given, (), NOW) == decide(REQUEST, given, (), NOW)
    assert given == before
