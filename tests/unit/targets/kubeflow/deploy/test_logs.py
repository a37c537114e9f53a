"""What programs printed: where it is read, and what is shown of it while it grows, and once it is gone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.following import copy_log
from drivetrain.deploying.runs import RemoteRun
from drivetrain.targets.kubeflow.deploy.executions.following import FollowedExecution, Output, program_lines
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep
from drivetrain.targets.kubeflow.deploy.executions.workflow import Attempt
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.rest import Api
from tests.fixtures.failing_proxy import closed_port
from tests.fixtures.s3_server import environment, make_bucket, s3_server, variables

BEFORE = """\
time=2026-11-28T10:29:05.450Z level=INFO msg="capturing logs" argo=true
I1128 09:35:59.628096      10 main.go:67] Setting log level to: '1'
I1128 09:35:59.638552      10 cache.go:89] Connecting to cache endpoint ml-pipeline.kubeflow.svc.cluster.local:8887
I1128 09:35:59.669610      10 registry.go:68] No task-level plugins enabled, returning no-op dispatcher
"""
AFTER = """\
I1128 09:36:00.432292      10 launcher_v2.go:1230] ExecutorOutput: {
  "parameterValues": {},
}
I1128 09:36:00.436174      10 launcher_v2.go:867] Executing uploadOutputArtifacts attempt: 1
I1128 09:36:00.460912      10 object_store.go:231] uploadFile(localFilePath="/s3/models")
"""
# As it was recorded: with status 200.
NO_LOG = json.dumps({"error_message": "BadRequestError: Failed to read logs", "error_details": "stack trace"})
PRINTED = 'made 10 rows\n{\n  "rows": 10\n}\n'


class Logs:
    """The log address: a text by the name of a node or pod."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.asked: list[str] = []

    def text(self, path: str, *, about: str) -> str:
        name = path.split("/")[-2]
        self.asked.append(name)
        return self.texts.get(name.replace("-", "_"), NO_LOG)


@pytest.fixture
def root() -> Generator[str]:
    with environment(variables(s3_server())):
        yield f"s3://{make_bucket(s3_server())}/runs/p/r/make/u"


def output(api: Logs | None = None, storage: str | None = None) -> Output:
    return Output(cast(Api, api or Logs()), storage or s3_server())


def ended(root: str, number: int = 0) -> Attempt:
    return Attempt(f"pod-{number}", f"node-{number}", number, is_over=True, log=f"{root}/executor-logs")


def keep(uri: str, text: str) -> None:
    Objects(s3_server()).write(uri, text.encode())


@pytest.mark.parametrize(("name", "number"), [("executor-logs-0", 0), ("executor-logs-2", 2), ("executor-logs", 2)])
def test_the_log_is_the_one_stored_by_the_launcher(root: str, name: str, number: int) -> None:
    keep(f"{root}/{name}", PRINTED)
    api = Logs()
    assert output(api).lines("r", ended(root, number)) == PRINTED.splitlines() and api.asked == []


def test_an_empty_log_is_valid_and_a_long_one_is_read_from_its_end(root: str) -> None:
    keep(f"{root}/executor-logs-0", "")
    assert output().lines("r", ended(root)) == []
    keep(f"{root}/executor-logs-0", "".join(f"line {number}\n" for number in range(1_000)))
    assert output().lines("r", ended(root), most=20) == ["7", "line 998", "line 999"]


def test_without_a_stored_log_the_archive_is_read_by_node_id(root: str) -> None:
    api = Logs(node_0=BEFORE + PRINTED + AFTER)
    assert output(api).lines("r", ended(root)) == PRINTED.splitlines() and api.asked == ["node-0"]


@pytest.mark.parametrize("text", [NO_LOG, ""])
def test_error_texts_and_empty_answers_are_no_log(root: str, text: str) -> None:
    assert output(Logs(node_0=text)).lines("r", ended(root)) is None


def test_without_a_program_start_the_launcher_gives_the_reason(root: str) -> None:
    """As on a stock installation whose launcher cannot read the storage."""
    why = 'failed to execute component: failed to download input artifact "code": Invalid region'
    api = Logs(node_0=f"{BEFORE}F1128 09:36:00.512345      10 main.go:59] {why}\n")
    assert output(api).lines("r", ended(root)) == api.texts["node_0"].splitlines()
    (made,) = output(api).explained("r", (failed(root, "its driver: Error (exit code 1)"),))
    assert str(made.reason).splitlines()[-1] == why
    running = replace(ended(root), is_over=False)
    assert output(Logs(pod_0=BEFORE)).lines("r", running) == []


def test_json_that_a_program_prints_is_a_log(root: str) -> None:
    assert output(Logs(node_0='{"error_message": 1\n')).lines("r", ended(root)) == ['{"error_message": 1']


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (BEFORE + PRINTED + AFTER, PRINTED.splitlines()),
        (BEFORE + AFTER, []),
        (BEFORE, []),
        (PRINTED, PRINTED.splitlines()),
        # absl and glog print alike; only the platform's are written in Go.
        (BEFORE + "I1128 09:36:00.4 10 train.py:3] step 1\n" + AFTER, ["I1128 09:36:00.4 10 train.py:3] step 1"]),
        (BEFORE + "F1128 09:36:00.432292      10 main.go:57] failed to execute component: exit status 1\n", []),
    ],
)
def test_the_platforms_own_lines_are_left_out(text: str, lines: list[str]) -> None:
    assert program_lines(text.splitlines()) == lines


def test_a_running_pod_is_read_by_name_with_a_growing_last_line(root: str) -> None:
    running = replace(ended(root), is_over=False)
    api = Logs(pod_0=BEFORE + "one\ntwo\nthr")
    assert output(api).lines("r", running) == ["one", "two"] and api.asked == ["pod-0"]


def step(name: str, status: str, *programs: tuple[Attempt, ...], **more: Any) -> PodStep:
    return PodStep(name=name, title=name, type="Task", status=status, programs=programs, **more)


def failed(root: str, *messages: str) -> PodStep:
    attempt = ended(root)
    return step("make", "Failed", (attempt,), messages=messages, failed_by=attempt)


def test_the_reason_of_a_failure_is_the_programs_last_line(root: str) -> None:
    keep(f"{root}/executor-logs-0", "made 10 rows\nerror: no rows in s3://a\n\n")
    (made,) = output().explained("r", (failed(root, "main: Error (exit code 1)"),))
    assert made.reason == "main: Error (exit code 1)\nmade 10 rows\nerror: no rows in s3://a"
    (made,) = output().explained("r", (failed(root, "main: Error (exit code 1)", "Max duration limit exceeded"),))
    assert (made.reason or "").endswith("\nerror: no rows in s3://a (Max duration limit exceeded)")


def test_a_secret_in_the_last_lines_is_masked(root: str) -> None:
    keep(f"{root}/executor-logs-0", "error: https://user:hunter2hunter2@host refuses\n")
    (made,) = output().explained("r", (failed(root, "m"),))
    assert "hunter2" not in str(made.reason) and "refuses" in str(made.reason)


def test_without_storage_the_archive_says_why_and_the_storage_is_asked_once(root: str) -> None:
    api = Logs(node_0=BEFORE + "error: no rows\n" + AFTER)
    found = output(api, f"http://127.0.0.1:{closed_port()}")
    with environment({"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{closed_port()}"}):
        (made,) = found.explained("r", (failed(root, "m"),))
    assert made.reason == "m\nerror: no rows" and "cannot be used" in str(found.problem)
    keep(f"{root}/executor-logs-0", "from the storage\n")
    assert found.lines("r", ended(root)) == ["error: no rows"]


def test_a_failure_is_explained_once_over_all_polls(root: str) -> None:
    api = Logs(node_0="error: no rows\n")
    found = output(api)
    assert found.explained("r", (failed(root, "m"),)) == found.explained("r", (failed(root, "m"),))
    assert api.asked == ["node-0"]


def training(*attempts: Attempt, status: str = "Succeeded", trains: bool = True) -> PodStep:
    return step("train", status, attempts, trains=trains)


def starts_from(found: Output, trained: PodStep) -> str:
    return found.explained("r", (trained,))[0].starts


def test_the_starting_point_of_the_newest_attempt_is_shown(root: str) -> None:
    keep(f"{root}/executor-logs-0", "starts from: nothing (a new training)\nepoch 1/3\n")
    keep(f"{root}/executor-logs-1", "loading\nnode-0 starts from: step 8 of this training\n" + "epoch\n" * 200_000)
    assert starts_from(output(), training(ended(root))) == "starts from nothing (a new training)"
    assert starts_from(output(), training(ended(root), ended(root, 1))) == "starts from step 8 of this training"
    api = Logs(node_0=BEFORE + "starts from: https://me:hunter2hunter2@host\n" + AFTER)
    archived = replace(ended(root), log=None)
    assert starts_from(output(api), training(archived)) == "starts from https://me:***@host"


def test_the_starting_point_is_read_only_from_trainings_outside_loops(root: str) -> None:
    api = Logs(node_0="starts from: 2\n")
    archived = replace(ended(root), log=None)
    assert starts_from(output(api), training(archived, trains=False)) == ""
    assert starts_from(output(api), replace(training(archived), programs=((archived,), (archived,)))) == ""
    assert starts_from(output(api), training(replace(archived, is_over=False, pending="Unschedulable"))) == ""
    assert api.asked == []


def test_a_running_training_is_polled_for_its_starting_point(root: str) -> None:
    api = Logs(pod_0="loading\nstarts from: step")
    found, trained = output(api), training(replace(ended(root), is_over=False), status="Executing")
    assert starts_from(found, trained) == ""
    api.texts["pod_0"] = "loading\nstarts from: step 8 of this training\nepoch"
    for _ in range(2):
        assert starts_from(found, trained) == "starts from step 8 of this training"
    assert api.asked == ["pod-0", "pod-0"]
    silent = output(Logs(pod_0="epoch\n" * 20_000))
    assert [starts_from(silent, trained) for _ in range(2)] == ["", ""]


def test_a_training_whose_log_cannot_be_read_says_so(root: str) -> None:
    with environment({"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{closed_port()}"}):
        assert starts_from(output(), training(ended(root))) == "its log cannot be read"
    assert starts_from(output(), training(ended(root))) == ""  # nothing is kept of it


def going(*attempts: Attempt, status: str = "Executing") -> RemoteRun:
    made = step("make", status, tuple(replace(each, namespace="kubeflow") for each in attempts))
    return RemoteRun(id="r", pipeline="p", status="Executing", started=0.0, steps=(made,))


class Looks(FollowedExecution):
    """A run of which each look is given."""

    looks: Iterator[RemoteRun] = iter(())

    def look(self, *, closely: bool = False) -> RemoteRun:
        return next(self.looks)


def shown(
    run: RemoteRun,
    from_: Output,
    looks: Iterator[RemoteRun] | None = None,
    found: list[str] | None = None,
    **options: Any,
) -> list[str]:
    found = [] if found is None else found
    followed = Looks(cast(Api, None), from_, "p", "r")
    followed.__dict__["looks"] = looks or iter(())
    copy_log(followed, run, run.steps[0], lambda line: found.append(line.text), wait=lambda _: None, **options)
    return found


def test_a_pod_without_a_live_log_shows_the_kubectl_command(root: str) -> None:
    running = replace(ended(root), is_over=False)
    with pytest.raises(UserError, match="Meanwhile: kubectl -n kubeflow logs pod-0 -c main -f"):
        shown(going(running), output())


def test_following_notes_a_missing_live_log_and_prints_it_at_the_end(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(f"{root}/executor-logs-0", PRINTED)
    running = replace(ended(root), is_over=False)
    answers = iter([going(running), going(running), going(ended(root), status="Succeeded")])
    pending = going(replace(running, pending="Unschedulable"))
    assert shown(pending, output(), answers, follow=True) == PRINTED.splitlines()
    first, second = capsys.readouterr().err.splitlines()
    assert (
        "is pending (Unschedulable) and has no log yet" in first and "kubectl -n kubeflow describe pod pod-0" in first
    )
    assert second.endswith("Meanwhile: kubectl -n kubeflow logs pod-0 -c main -f")


def test_following_prints_each_line_and_attempt_once(root: str) -> None:
    """In a multi-user installation, where a running pod's log is there."""
    keep(f"{root}/executor-logs-1", "one\ntwo\nthree\n")
    keep(f"{root}/executor-logs-2", "again\n")
    first, second = replace(ended(root, 1), is_over=False), ended(root, 2)
    api = Logs(pod_1=BEFORE + "one\ntw")

    def looks() -> Iterator[RemoteRun]:
        api.texts["pod_1"] = BEFORE + "one\ntwo\n"
        yield going(ended(root, 0), first)
        yield going(ended(root, 0), ended(root, 1), second, status="Failed")

    found = shown(going(ended(root, 0), first), output(api), looks(), follow=True)
    assert found == ["one", "two", "three", "again"]


class Away(Logs):
    """The address of one node's log does not answer."""

    def text(self, path: str, *, about: str) -> str:
        if "/node-1/" in path:
            raise UserError("the server is away")
        return super().text(path, about=about)


def test_the_lines_of_a_pod_are_shown_before_the_log_of_the_next_one_fails(root: str) -> None:
    made = step("make", "Succeeded", (ended(root, 0),), (ended(root, 1),))
    found: list[str] = []
    with pytest.raises(UserError, match="the server is away"):
        shown(replace(going(), steps=(made,)), output(Away(node_0="one\ntwo\n")), found=found)
    assert found == ["one", "two"]


def test_a_log_that_is_gone_is_an_error_that_says_why(root: str) -> None:
    run = going(ended(root, 0), ended(root, 1), status="Failed")
    keep(f"{root}/executor-logs-0", "of an earlier attempt\n")
    with pytest.raises(UserError, match="log of pod pod-1 is gone: it ended before its log was kept"):
        shown(run, output())
    unread = pytest.raises(UserError, match=r"kept in the storage, which cannot be read: http://127\.0\.0\.1")
    with environment({"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{closed_port()}"}), unread:
        shown(run, output())


def test_the_last_lines_alone(root: str) -> None:
    keep(f"{root}/executor-logs-0", "one\ntwo\nthree\n")
    assert shown(going(ended(root), status="Succeeded"), output(), num_lines=2) == ["two", "three"]


def test_objects_are_read_completely(root: str) -> None:
    content = hashlib.sha256(root.encode()).digest()
    objects = Objects(s3_server())
    objects.write(f"{root}/x", content)
    assert objects.part(f"{root}/x", 100) == objects.part(f"{root}/x", 100, first=True) == content
    assert objects.part(f"{root}/x", 3) == content[-3:]
    assert objects.part(f"{root}/x", 3, first=True) == content[:3]
    assert objects.part(f"{root}/y", 3) is None and objects.part(f"{root}/y", 3, first=True) is None
