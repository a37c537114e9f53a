"""Hosts that wait for the first one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.ports import held_port
from drivetrain.training.errors import LostHostError
from drivetrain.training.launch import meeting
from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.job import Options

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def in_thread(function: Any) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(function())
        except LostHostError as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


def first_says(cluster: Cluster, code: int | None, join_timeout: float = 30) -> None:
    with meeting.first_host(cluster, Options(join_timeout=join_timeout)) as others:
        if code is not None:
            others.tell(code)


@pytest.mark.slow_cases("3", "None")
@pytest.mark.parametrize("code", [0, 3, -9, None])
def test_the_first_hosts_end_is_the_others(code: int | None) -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        thread, answers = in_thread(lambda: first_says(Cluster(HOSTS[:2], 0, port=port), code))
        with meeting.other_host(Cluster(HOSTS[:2], 1, port=port), Options(join_timeout=30)) as first:
            assert first.wait([])[0] == code
        thread.join(timeout=20)
    assert answers == [None]


@pytest.mark.slow
def test_hosts_that_do_not_come_are_named() -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        thread, answers = in_thread(lambda: first_says(Cluster(HOSTS, 0, port=port), 0, join_timeout=1))
        with meeting.other_host(Cluster(HOSTS, 2, port=port), Options(join_timeout=30)) as first:
            assert first.wait([])[0] is None
        thread.join(timeout=20)
    assert str(answers[0]) == "127.0.0.2 did not come within 1 s."


def test_a_first_host_that_is_not_there(tmp_path: Path) -> None:
    with held_port() as held:
        cluster = Cluster(HOSTS, 1, port=held.getsockname()[1])
        with (
            pytest.raises(LostHostError, match=r"the first host does not answer at 127.0.0.1:\d+"),
            meeting.other_host(cluster, Options(join_timeout=0)),
        ):
            pass
