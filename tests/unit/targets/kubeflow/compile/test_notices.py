"""The exit task that posts how a run ended, and its program."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from drivetrain import Parameter, step, when
from drivetrain.steps.kubeflow import notice
from tests.fixtures.kubeflow_examples import compiled, container, document, load, platform, score, tasks

RAW = "s3://own/raw/"
STATUS = {"state": "FAILED", "error": {"message": "Task all-steps failed."}}


def test_all_steps_are_in_one_task_beside_the_notice() -> None:
    rows, place = Parameter.integer("Rows", default=3), Parameter.string("Place")
    scores = step(score, data=place)
    gate = when(scores.metric("a") > 0.5, then=[step(load, raw=RAW, max_rows=rows)], name="gate")
    built = compiled(scores, gate, parameters=[rows, place], settings={"notices": "hooks/url", "image": "own:1"})
    assert list(tasks(built)) == ["all-steps", "notice"]
    assert list(tasks(built, "comp-all-steps")) == [
        "gate",
        "import-code",
        "import-load-raw",
        "import-score-data",
        "score",
    ]
    told = tasks(built)["notice"]
    assert told["dependentTasks"] == ["all-steps"]
    assert told["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert told["inputs"]["parameters"]["status"] == {"taskFinalStatus": {"producerTask": "all-steps"}}
    # The pipeline's parameters go in through the task of all steps.
    assert tasks(built)["all-steps"]["inputs"]["parameters"]["pipelinechannel--Rows"] == {
        "componentInputParameter": "Rows"
    }
    assert document(built, "load")["program"].endswith(":load")


def test_the_url_is_in_no_file_and_the_program_travels_in_the_command() -> None:
    settings = {"notices": "hooks/url", "image": "own:1", "s3_secret": "minio", "image_pull_secret": "registry"}
    built = compiled(step(load, raw=RAW), settings=settings)
    assert container(built, "notice")["image"] == "own:1"
    assert "urllib.request" in container(built, "notice")["command"][3]
    assert platform(built, "notice")["imagePullSecret"][0]["secretName"] == "registry"
    (secret,) = platform(built, "notice")["secretAsEnv"]  # and none of the steps'
    assert secret["secretName"] == "hooks"
    assert secret["keyToEnv"] == [{"envVar": "DRIVETRAIN_NOTICE_URL", "secretKey": "url"}]


def test_there_is_no_exit_task_without_notices() -> None:
    built = compiled(step(load, raw=RAW))
    assert "notice" not in tasks(built) and "load" in tasks(built)


@pytest.fixture
def hook() -> Iterator[Any]:
    """A webhook that answers with what its `codes` say, and keeps what it was sent."""

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.server.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(self.server.codes.pop(0))
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.taken, server.codes = [], [200]
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def run(monkeypatch: pytest.MonkeyPatch, url: str | None, status: Any = STATUS) -> None:
    monkeypatch.setattr("sys.argv", ["notice", json.dumps(status), "run-1"])
    monkeypatch.setenv("DRIVETRAIN_PIPELINE", "digits")
    monkeypatch.setattr(notice.time, "sleep", lambda _: None)
    monkeypatch.delenv("DRIVETRAIN_NOTICE_URL", raising=False)
    if url is not None:
        monkeypatch.setenv("DRIVETRAIN_NOTICE_URL", url)
    notice.main()


def test_a_notice_says_how_the_run_ended(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, hook.url)
    assert hook.taken == [
        {
            "text": "Pipeline digits, run run-1: FAILED. Task all-steps failed.",
            "pipeline": "digits",
            "run": "run-1",
            "state": "FAILED",
            "error": "Task all-steps failed.",
        }
    ]


def test_a_notice_is_retried_while_the_webhook_is_unavailable(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook.codes = [503, 429, 200]
    run(monkeypatch, hook.url, {"state": "SUCCEEDED"})
    assert [each["state"] for each in hook.taken] == ["SUCCEEDED"] * 3


@pytest.mark.parametrize(("codes", "attempts"), [([404], 1), ([500] * 4, 4)])
def test_a_notice_that_cannot_be_delivered_names_no_url(
    hook: Any, monkeypatch: pytest.MonkeyPatch, codes: list[int], attempts: int
) -> None:
    hook.codes = list(codes)
    with pytest.raises(SystemExit, match=rf"could not be delivered: HTTPError {codes[0]}\.$") as ended:
        run(monkeypatch, hook.url)
    assert len(hook.taken) == attempts and hook.url not in str(ended.value)


def test_nothing_is_posted_without_a_url_and_to_no_other_scheme(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, None)
    assert "is not set here, so nothing is posted" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="is no https:// URL"):
        run(monkeypatch, "file:///etc/passwd")
