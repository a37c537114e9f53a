"""A task that follows TrainJobs as Kubeflow Trainer was recorded to run them: the order in which things are said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivetrain.steps.kubeflow import nodes
from drivetrain.steps.kubeflow.nodes import Nodes
from drivetrain.steps.kubeflow.program import Log, Reporter
from drivetrain.steps.kubeflow.reasons import End
from tests.fixtures.train_job_runs import Replay
from tests.unit.steps.kubeflow.test_nodes import task_in

# Seconds between two looks: between each two events, and as the task looks.
POLLS = [0.7, 3.0]


class EnoughError(Exception):
    """The recording has been watched for long enough."""


@dataclass
class Followed:
    """How a task ended that followed a recorded run."""

    replay: Replay
    said: list[str]
    end: End | None


def follow(
    name: str, poll: float, folder: Path, monkeypatch: pytest.MonkeyPatch, *, hours: float = 0.1, **told: Any
) -> Followed:
    replay, said = Replay(name), list[str]()
    for variable, value in {"DRIVETRAIN_KUBERNETES_API": "http://none", "DRIVETRAIN_SERVICE_ACCOUNT": folder}.items():
        monkeypatch.setenv(variable, str(value))
    (folder / "namespace").write_text("team-k")
    task = task_in(folder, **{"start_seconds": 60, "repeats": 0, **told})
    following = Nodes(task, Log({}, Reporter(task)), said.append, poll=poll, settle=15.0)
    monkeypatch.setattr(nodes, "time", replay)

    def pause() -> None:
        replay.now += poll
        if replay.now > hours * 3600:
            raise EnoughError

    following.api = replay  # type: ignore[assignment]
    following.own_pod.api = replay  # type: ignore[assignment]
    following._pause = pause  # type: ignore[method-assign]
    try:
        return Followed(replay, said, following.followed_to_its_end())
    except EnoughError:
        return Followed(replay, said, None)


@pytest.mark.parametrize("poll", POLLS)
def test_a_training_to_its_end(poll: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow("done", poll, tmp_path, monkeypatch)
    assert found.end == End("done") and len(found.replay.created) == 1
    assert [line.partition(": ")[0].partition(" is ")[0] for line in found.said] == [
        f"TrainJob {found.replay.created[0]}"
    ] * 2, "nothing is said of pods that are pending for a second"


@pytest.mark.parametrize("poll", POLLS)
@pytest.mark.parametrize("runtime", ["own-runtime", "stock-runtime"])
def test_a_program_that_fails(runtime: str, poll: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainer's own runtime starts it again in its pod, for four minutes."""
    found = follow(f"program-fails.{runtime}", poll, tmp_path, monkeypatch)
    assert found.end is not None and found.end.code == 2
    assert "no manifest.json. Run prepare_data first" in found.end.reason
    assert len(found.replay.created) == len(found.replay.deleted) == 1
    failed = next(each["s"] for each in found.replay.events if "exitCode" in str(each.get("containers")))
    assert found.replay.ended_at[0] - failed < 20, "seconds until all nodes are ended"


@pytest.mark.parametrize("poll", POLLS)
@pytest.mark.parametrize("told", [{}, {"repeats": 3}, {"restart_seconds": 90_000}], ids=["plain", "repeats", "spot"])
def test_reaching_the_time_limit_is_no_interruption(
    told: dict[str, Any], poll: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods go before the TrainJob says why, and others come in their place."""
    found = follow("max-run-seconds", poll, tmp_path, monkeypatch, **told)
    said = "the TrainJob ran for longer than max_run_seconds allows (TrainJob exceeded its active deadline)"
    assert found.end == End("failed", 1, said)
    assert len(found.replay.created) == 1


@pytest.mark.parametrize("poll", POLLS)
def test_a_pod_that_is_deleted(poll: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow("fix.pod-deleted.spot", poll, tmp_path, monkeypatch, restart_seconds=90_000)
    assert found.end == End("done")
    assert [name[-2:] for name in found.replay.created] == ["-0", "-1"]
    assert found.replay.beside == [], "no pod of the first is left when the second is made"


def test_a_rank_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow("rank-killed", 3.0, tmp_path, monkeypatch)
    assert found.end is not None and (found.end.kind, found.end.code) == ("interrupted", 75)
    assert found.end.reason.startswith("node 1 (pod ") and found.end.reason.endswith("ended by SIGKILL")


@pytest.mark.parametrize("poll", POLLS)
def test_preemption_by_a_queue_is_an_interruption(poll: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow("suspended-while-it-runs", poll, tmp_path, monkeypatch, restart_seconds=90_000)
    assert found.end is None, "it waits"
    assert len(found.replay.created) == 1 and found.replay.deleted == []
    assert found.said[-1].endswith("waits: the TrainJob is suspended (Suspended: TrainJob is suspended)")


@pytest.mark.parametrize("poll", POLLS)
def test_time_in_a_queue_does_not_count(poll: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow("queued-then-admitted", poll, tmp_path, monkeypatch, start_seconds=10)
    assert found.end is None and found.replay.deleted == []
    assert found.said[-1].endswith("all nodes have started")


def test_a_missing_account_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = follow("no-service-account", 3.0, tmp_path, monkeypatch, start_seconds=15)
    assert found.end is not None and found.end.code == 75
    assert 'serviceaccount "nosuch" not found' in found.end.reason
    assert found.end.reason.count("FailedCreate") == 1, "its newest refusal"
