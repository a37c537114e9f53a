from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.telling.content.goodput import account, breaks, spans, started_after
from drivetrain.telling.content.job_times import job_times

SPOT = {"EnableManagedSpotTraining": True, "ResourceConfig": {"InstanceCount": 2}}
RESPONSE: dict[str, Any] = {
    "TrainingTimeInSeconds": 40,
    "BillableTimeInSeconds": 35,
    "SecondaryStatusTransitions": [
        {"Status": "Training", "StartTime": 100.0, "EndTime": 116.0},
        {"Status": "Interrupted", "StartTime": 116.0, "EndTime": 119.0, "StatusMessage": "taken back"},
        {"Status": "Training", "StartTime": 119.0, "EndTime": 130.0},
    ],
    "Drivetrain": {
        "interruptions": [
            {"at_step": 100, "resumed_step": 80, "steps_lost": 20, "notice_s": 0, "seconds_down": 3.0, "reason": "spot"}
        ],
        "attempts": [
            {"number": 2, "started": 119.0, "time": 130.0, "first_step": 80, "step": 130, "saves": 1},
            {"number": 1, "started": 100.0, "time": 116.0, "first_step": 0, "step": 100, "saves": 2,
             "stall_seconds": 0.5, "restart_seconds": 4.0, "saved": [[40, 107.0], [80, 113.0]], "ended": None},
        ],
    },
}  # fmt: skip


def test_a_description_is_read_whole() -> None:
    times = job_times("train", SPOT, RESPONSE)
    assert times is not None and times.spot and times.hosts == 2
    assert [one.number for one in times.attempts] == [1, 2]
    assert times.attempts[0].saved == ((40, 107.0), (80, 113.0)) and times.attempts[0].stall_seconds == 0.5
    (interruption,) = times.interruptions
    assert (interruption.steps_lost, interruption.notice_seconds, interruption.reason) == (20, 0.0, "spot")
    assert [phase.status for phase in times.phases] == ["Training", "Interrupted", "Training"]


def test_interruptions_of_a_foreign_job_follow_from_its_phases() -> None:
    times = job_times("train", SPOT, {key: value for key, value in RESPONSE.items() if key != "Drivetrain"})
    assert times is not None and account(times) is None
    (interruption,) = times.interruptions
    assert interruption.seconds_down == pytest.approx(3.0) and interruption.reason == "taken back"


def test_an_uninterruptible_training_reports_nothing() -> None:
    assert job_times("train", {}, {"TrainingTimeInSeconds": 4, "SecondaryStatusTransitions": []}) is None
    assert job_times("train", SPOT, {}) is None, "it has not ended yet"


def test_a_resumed_training_reports_its_starts() -> None:
    starts: list[dict[str, Any]] = [{**one, "job": one["number"]} for one in RESPONSE["Drivetrain"]["attempts"]]
    times = job_times("train", {}, {"Drivetrain": {"attempts": starts}})
    assert times is not None and not times.spot and len(breaks(times)) == 1
    (resumed,) = times.interruptions
    assert (resumed.at_step, resumed.resumed_step, resumed.steps_lost, resumed.seconds_down) == (100, 80, 20, None)
    # The second job's curves follow those of the first, without the pause in which nobody ran it.
    assert started_after(times) == {1: 0.0, 2: 16.0}
    anew = job_times("train", {}, {"Drivetrain": {"attempts": [{**starts[0], "first_step": 0}, starts[1]]}})
    assert anew is not None and anew.interruptions == () and breaks(anew) == [] and started_after(anew) == {2: 0.0}


def test_interruptions_are_reported_on_any_machines() -> None:
    times = job_times("train", {}, RESPONSE)
    assert times is not None and not times.spot and len(times.interruptions) == 1


def test_launcher_lines_of_a_script_are_not_steps() -> None:
    attempts = [{"number": n, "started": 10.0 * n, "time": 10.0 * n + 8, "first_step": 0, "step": 0} for n in (1, 2)]
    times = job_times("train", SPOT, {**RESPONSE, "Drivetrain": {"interruptions": [{}], "attempts": attempts}})
    assert times is not None and [one.step for one in times.attempts] == [None, None]
    assert account(times) is None and [kind for kind, _, _ in spans(times)] == ["training", "down", "training"]


def test_a_training_that_left_spot_keeps_its_spot_attempts() -> None:
    told = {"attempts": [{"number": 1, "started": 0.0, "spot": True}, {"number": 2, "started": 1.0, "spot": False}]}
    times = job_times("train", {}, {"Drivetrain": told})
    assert times is not None and times.spot and [one.spot for one in times.attempts] == [True, False]
    (alone,) = (job_times("train", {}, {"Drivetrain": {"attempts": told["attempts"][1:]}}),)
    assert alone is None


def test_idle_time_before_a_resume_is_not_counted() -> None:
    """Two jobs with a night in between; each has two starts of 4 s, and 2 s without machines between them."""
    night = 36_000.0
    attempts = [
        {"number": number, "job": job, "started": began, "time": began + 3.0, "gone": began + 4.0,
         "first_step": 10 * number - 10, "step": 10 * number, "restart_seconds": 1.0, "saved": [[1, began + 2.0]]}
        for number, (job, began) in enumerate([(1, 100.0), (1, 106.0), (2, night), (2, night + 6.0)], 1)
    ]  # fmt: skip
    told = {"attempts": attempts, "interruptions": [{"start": 1}, {"start": 2}, {"start": 3}]}
    times = job_times("train", SPOT, {"Drivetrain": told})
    assert times is not None
    assert [one.started for one in times.attempts] == [100.0, 106.0, 110.0, 116.0]
    assert [one.until for one in times.attempts] == [104.0, 110.0, 114.0, 120.0]
    assert [one.saved for one in times.attempts] == [((1, one.started + 2.0),) for one in times.attempts]
    spent = account(times)
    assert spent is not None and spent.down == pytest.approx(4.0) and spent.useful == pytest.approx(8.0)
    assert spent.restarting == pytest.approx(6.0), "three times 1 s to leave, and 1 s to the next step"
    assert spent.total == pytest.approx(18.0) and spent.failure_seconds == pytest.approx(6.0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["number", "job", "started", "time", "gone", "step", "first_step", "saved", "spot", "start"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(json_values, json_values, json_values, json_values)
def test_any_job_description_is_tolerated(attempts: Any, interruptions: Any, phases: Any, time: Any) -> None:
    response = {
        "SecondaryStatusTransitions": phases,
        "TrainingTimeInSeconds": time,
        "Drivetrain": {"attempts": attempts, "interruptions": interruptions},
    }
    times = job_times("train", SPOT, response)
    assert times is not None
    spent = account(times)
    assert spent is None or 0 <= spent.goodput <= 1
    assert all(started < ended for _, started, ended in spans(times))
