"""Looks that a deployment keeps: the events of what they found reach EventBridge once, also after a refusal."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.evaluation import Measured
from drivetrain.decision.served_check import Look
from drivetrain.decision.served_findings import kept_findings
from drivetrain.decision.served_kept import keep_look
from drivetrain.decision.served_quality import Quality
from tests.fixtures.s3_server import make_bucket, s3_server, variables


@dataclass
class Bus:
    """An event bus: what it got, and how it answers."""

    status: int = 200
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    got: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Generator[Bus]:
    made = Bus()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["Entries"]
            body = json.dumps(
                {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in got], **made.answer}
            ).encode()
            if made.status == 200 and not made.answer:
                made.got += got
            self.send_response(made.status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """No line a request."""

    endpoint = s3_server()
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_EVENTBRIDGE", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("DRIVETRAIN_EVIDENCE", f"s3://{make_bucket(endpoint)}/drivetrain-evidence")
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


class Far:
    """A registry on another machine."""

    objects = None

    def champion(self, group: str) -> None:
        return None


FAR: Any = Far()


def look(day: str) -> Look:
    measured = Measured(value=0.7, higher_is_better=True)
    promised = Measured(value=0.9, higher_is_better=True)
    quality = Quality(
        metric="auroc", rows=500, promised=promised, measured=measured, surely=0.1, dropped=True, why="auroc dropped"
    )
    return Look(group="churn", version=3, day=day, rows=900, content_hash="a" * 64, quality=quality, labelled=500)


def keep(day: str) -> None:
    keep_look(FAR, None, look(day), remind_days=7)  # type: ignore[arg-type]


def test_a_finding_is_sent_once(bus: Bus) -> None:
    keep("2026-11-29")
    keep("2026-11-29")
    keep("2026-11-30")
    (event,) = bus.got
    assert (event["Source"], event["DetailType"]) == ("drivetrain", "Drivetrain Quality Drop")
    detail = json.loads(event["Detail"])
    assert (detail["group"], detail["version"], detail["metric"], detail["value"]) == ("churn", 3, "auroc", 0.7)
    (finding,) = kept_findings(FAR, "churn").findings
    assert finding.is_sent and finding.detail() == detail


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (400, {"__type": "AccessDeniedException", "message": "not allowed"}, "AccessDeniedException"),
        (
            200,
            {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "NotAuthorizedForSource", "ErrorMessage": "no"}]},
            "1 events: NotAuthorizedForSource: no",
        ),
    ],
)
def test_a_refused_event_is_an_error_and_the_same_look_sends_it(
    bus: Bus, status: int, answer: dict[str, Any], why: str
) -> None:
    bus.status, bus.answer = status, answer
    with pytest.raises(InputError, match=f"{why}.* Allow the role of this step events:PutEvents") as raised:
        keep("2026-11-29")
    assert "\n" not in str(raised.value) and len(kept_findings(FAR, "churn").looks) == 1
    bus.status, bus.answer = 200, {}
    keep("2026-11-29")
    assert len(bus.got) == 1
