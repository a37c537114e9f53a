"""Retry policies."""

from __future__ import annotations

from drivetrain.targets.sagemaker.document.document import Retry
from drivetrain.targets.sagemaker.run.execution import CAPACITY_ERROR, JOB_INTERNAL_ERROR
from drivetrain.targets.sagemaker.run.execution.worker import Retries


def test_waits_grow_until_the_attempts_are_used_up() -> None:
    policy = Retry((JOB_INTERNAL_ERROR,), interval_seconds=2, backoff_rate=3, max_attempts=3)
    retries = Retries([policy])
    assert [retries.wait_s(JOB_INTERNAL_ERROR) for _ in range(4)] == [2, 6, 18, None]


def test_a_programs_own_failure_is_not_retried() -> None:
    retries = Retries([Retry((JOB_INTERNAL_ERROR,))])
    assert retries.wait_s(None) is None
    assert retries.wait_s(CAPACITY_ERROR) is None


def test_each_policy_counts_for_itself() -> None:
    retries = Retries(
        [
            Retry((CAPACITY_ERROR,), interval_seconds=1, max_attempts=1),
            Retry((JOB_INTERNAL_ERROR,), interval_seconds=5, max_attempts=1),
        ]
    )
    assert retries.wait_s(JOB_INTERNAL_ERROR) == 5
    assert retries.wait_s(CAPACITY_ERROR) == 1
    assert retries.wait_s(JOB_INTERNAL_ERROR) is None


def test_no_retry_begins_after_the_policy_has_expired() -> None:
    now = 0.0
    policy = Retry((JOB_INTERNAL_ERROR,), interval_seconds=10, max_attempts=None, expire_after_seconds=60)
    retries = Retries([policy], clock=lambda: now)
    assert retries.wait_s(JOB_INTERNAL_ERROR) == 10
    now = 45.0
    assert retries.wait_s(JOB_INTERNAL_ERROR) is None  # 45 + 20 > 60
