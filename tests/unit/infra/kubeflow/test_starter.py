from __future__ import annotations

import queue
import signal
from pathlib import Path

import pytest

from drivetrain import Deployment
from drivetrain.base.errors import UserError
from drivetrain.infra.kubeflow import starter
from drivetrain.infra.kubeflow.manifests import objects
from drivetrain.spec.pipeline import DataDrift, Pipeline, Schedule
from drivetrain.targets.kubeflow.settings import settings_of
from tests.fixtures.kubeflow_infra import FULL, full


class Looks:
    """A starter whose looks end as they are told; after the last one the program is to end."""

    def __init__(self, ends: queue.SimpleQueue[int], *answers: Exception | None) -> None:
        self.ends, self.answers, self.looks = ends, list(answers), 0

    def poll(self) -> None:
        answer = self.answers[self.looks]
        self.looks += 1
        if self.looks == len(self.answers):
            self.ends.put(15)
        if answer is not None:
            raise answer


def test_the_configuration_of_the_starter() -> None:
    served = (*full().triggers, DataDrift(name="drift", group="backbones", columns=("age",)))
    triggers = (*served, Schedule(name="nightly", rate="1 day"))  # the cluster starts that itself
    given = full(token_file="/home/me/token").model_copy(update={"triggers": triggers})
    told = Pipeline.model_validate_json(starter.pipeline_text(given))
    assert told.steps == () and told.name == "Vision" and told.triggers == served
    assert settings_of(told.deployment) == settings_of(Deployment(targets={"kubeflow": FULL}))


def test_a_failed_poll_is_repeated_and_every_poll_is_a_heartbeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends: queue.SimpleQueue[int] = queue.SimpleQueue()
    looks = Looks(ends, UserError("the registry does not answer"), None)
    heartbeat = tmp_path / "polled"
    starter.serve(looks, ends, 0.01, heartbeat)
    assert looks.looks == 2 and heartbeat.exists()
    assert capsys.readouterr().out == "failed, and is tried again in 0.01 s: the registry does not answer\n"

    heartbeat.unlink()
    starter.serve(Looks(ends, UserError("again")), ends, 60, heartbeat)
    assert heartbeat.exists(), "a new process would not mend it"


def test_an_error_of_ours_ends_the_program() -> None:
    ends: queue.SimpleQueue[int] = queue.SimpleQueue()
    with pytest.raises(ZeroDivisionError):
        starter.serve(Looks(ends, ZeroDivisionError()), ends, 60, None)


@pytest.mark.parametrize("content", [None, "{", '{"name": "x", "unknown": 1}'])
def test_bad_input_is_one_line(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    file = tmp_path / "pipeline.json"
    if content is not None:
        file.write_text(content)
    assert starter.main(["--pipeline", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1


def test_the_deployment_runs_this_program() -> None:
    _, deployment = objects(full())["starter.yaml"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"][:3] == ["python", "-m", starter.__name__]
    given = vars(starter.parser().parse_args(container["command"][3:]))
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(given["pipeline"].parent) in mounts and str(given["heartbeat"].parent) in mounts
    assert str(given["heartbeat"]) in container["livenessProbe"]["exec"]["command"][-1]
    assert given["every"] == 60
