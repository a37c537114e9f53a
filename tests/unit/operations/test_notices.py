"""Notices of a run's end: what is sent where, and that one which cannot be delivered is said."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from drivetrain.operations import notices
from drivetrain.run_store.model import StepRun
from drivetrain.telling.content import ModelFacts, RunFacts

RUN = RunFacts(
    id="abc",
    pipeline="retraining",
    status="Failed",
    started=100.0,
    ended=165.0,
    steps=(StepRun(name="train", type="Training", title="train", status="Failed", reason="out of memory"),),
    models=(ModelFacts(group="digits", version=3, status="PendingManualApproval"),),
)
TEXT = (
    "retraining failed after 1 min 05 s (run abc)\ntrain: out of memory\n"
    "digits version 3 waits for approval: drivetrain models approve digits 3"
)


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs to hand over one mail."""

    def handle(self) -> None:
        taken: list[str] = self.server.taken  # type: ignore[attr-defined]
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline().decode().strip():
            taken.append(line)
            if line.upper() == "DATA":
                self.wfile.write(b"354 go on\r\n")
                while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    taken.append(line)
            self.wfile.write(b"221 bye\r\n" if line.upper() == "QUIT" else b"250 ok\r\n")
            if line.upper() == "QUIT":
                return


@pytest.fixture
def mailbox() -> Iterator[socketserver.TCPServer]:
    with socketserver.TCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.taken = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_webhook_gets_the_end_of_the_run_and_waiting_models() -> None:
    posted: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200 if self.path == "/hook" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        assert notices.send(RUN, {notices.URL: f"{base}/hook"}) == []
        (problem,) = notices.send(RUN, {notices.URL: f"{base}/secret-token"})
        server.shutdown()
        thread.join()
    assert json.loads(posted[0]) == {"text": TEXT}
    assert problem == "The notice to $DRIVETRAIN_NOTICE_URL could not be delivered: HTTPError 404."


def test_a_mail_is_handed_over(mailbox: socketserver.TCPServer) -> None:
    server = f"smtp://127.0.0.1:{mailbox.server_address[1]}"
    assert notices.send(RUN, {notices.MAIL: "a@b.example,c@d.example", notices.SMTP: server}) == []
    taken: list[str] = mailbox.taken  # type: ignore[attr-defined]
    assert "Subject: retraining failed after 1 min 05 s (run abc)" in taken
    assert [line for line in taken if line.lower().startswith("rcpt")] == [
        "rcpt TO:<a@b.example>",
        "rcpt TO:<c@d.example>",
    ]
    assert "train: out of memory" in taken
    (problem,) = notices.send(RUN, {notices.MAIL: "a@b.example", notices.SMTP: server.replace("//", "//me:secret@")})
    assert "takes no encryption" in problem and "secret" not in problem


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({notices.URL: "hooks.slack.com/x"}, "is no https:// URL"),
        ({notices.MAIL: "a@b.example"}, "Give smtp://USER:PASSWORD@HOST:PORT"),
        ({notices.MAIL: "a@b.example", notices.SMTP: "smtp://127.0.0.1:1"}, "could not be sent by $DRIVETRAIN_SMTP"),
    ],
)
def test_undelivered_notices_are_reported(given: dict[str, str], said: str) -> None:
    (problem,) = notices.send(RUN, given)
    assert said in problem


def test_without_the_variables_nothing_is_sent_and_teams_takes_cards() -> None:
    assert notices.send(RUN, {}) == []
    (block,) = notices._content("x.logic.azure.com", "a\nb")["attachments"][0]["content"]["body"]
    assert block["text"] == "a\n\nb"
