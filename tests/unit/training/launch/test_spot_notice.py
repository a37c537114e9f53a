"""Against a server on the loopback that speaks as EC2's metadata service does (IMDSv2)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drivetrain.training.launch.cluster import Cluster
from drivetrain.training.launch.spot_notice import DISABLED, ENDPOINT, SpotNotice, is_asked

NOTICE = '{"action": "terminate", "time": "2026-11-21T08:22:00Z"}'


class Service(ThreadingHTTPServer):
    """`notice` is what it says once it is set; `asked` counts the questions, and is told of each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.notice = ""
        self.tokens: list[str] = []
        self.asked = threading.Semaphore(0)
        self.refuses_tokens = False
        self.others: list[str] = []

    @property
    def variables(self) -> dict[str, str]:
        return {ENDPOINT: f"http://127.0.0.1:{self.server_address[1]}"}


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_PUT(self) -> None:
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        if self.path != "/latest/api/token" or seconds != "21600" or self.server.refuses_tokens:
            return self.answer(403)
        self.server.tokens.append(f"token-{len(self.server.tokens)}")
        self.answer(200, self.server.tokens[-1])

    def do_GET(self) -> None:
        if self.path != "/latest/meta-data/spot/instance-action":
            self.server.others.append(self.path)
        if self.headers.get("X-aws-ec2-metadata-token") != (self.server.tokens or [None])[-1]:
            self.answer(401)
        elif self.server.notice:
            self.answer(200, self.server.notice)
        else:
            self.answer(404, "Not Found")
        self.server.asked.release()

    def answer(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def service() -> Generator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def wait_for(service: Service, questions: int) -> None:
    for _ in range(questions):
        assert service.asked.acquire(timeout=10)


def test_a_notice_acts_as_sigterm_once(service: Service) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    said: list[str] = []
    try:
        with SpotNotice(service.variables, pause=0.01, say=said.append) as notice:
            wait_for(service, 3)
            notice.tick()
            assert (notice.given, came) == ("", [])
            service.notice = NOTICE
            notice._thread.join(timeout=10)
            assert notice.given == "terminate at 2026-11-21T08:22:00Z"
            assert came == []  # the main thread acts, when it looks around
            notice.tick()
            notice.tick()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == [signal.SIGTERM]
    assert said == ["watching for the machine's spot notice", "spot notice: terminate at 2026-11-21T08:22:00Z"]
    assert service.others == []


def test_a_token_whose_time_is_over_is_replaced(service: Service) -> None:
    with SpotNotice(service.variables, pause=0.01, say=lambda line: None) as notice:
        wait_for(service, 2)
        service.tokens.append("another")  # the one that it holds is none any more
        wait_for(service, 4)
        service.notice = NOTICE
        notice._thread.join(timeout=10)
    assert notice.given.startswith("terminate")
    assert len(service.tokens) == 3


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', '{"action": "stop"}'])
def test_an_answer_of_another_kind_is_a_notice_all_the_same(text: str, service: Service) -> None:
    service.notice = text or " "
    with SpotNotice(service.variables, pause=0.01, say=lambda line: None) as notice:
        notice._thread.join(timeout=10)
    assert notice.given == "an interruption"


def test_a_missing_notice_service_is_not_asked_again(service: Service) -> None:
    said: list[str] = []
    service.refuses_tokens = True
    with SpotNotice(service.variables, pause=0.01, say=said.append) as notice:
        notice._thread.join(timeout=10)
        assert not notice._thread.is_alive()
    with SpotNotice({ENDPOINT: "http://127.0.0.1:1"}, pause=0.01, say=said.append) as notice:
        notice._thread.join(timeout=10)
        assert not notice._thread.is_alive()
    assert (notice.given, said) == ("", [])


@pytest.mark.parametrize(
    ("mode", "contract", "variables", "expected"),
    [
        ("auto", "/opt/ml/input/config/resourceconfig.json", {}, True),
        ("auto", "DRIVETRAIN_HOSTS", {}, True),
        ("auto", Cluster.contract, {}, False),
        ("auto", "DRIVETRAIN_HOSTS", {"SAGEMAKER_BASE_DIR": "/run/opt/ml"}, False),
        ("auto", "DRIVETRAIN_HOSTS", {DISABLED: "true"}, False),
        ("on", Cluster.contract, {}, True),
        ("on", Cluster.contract, {DISABLED: "TRUE"}, False),
        ("off", "DRIVETRAIN_HOSTS", {}, False),
    ],
)
def test_the_notice_services_that_are_asked(
    mode: str, contract: str, variables: dict[str, str], expected: bool
) -> None:
    assert is_asked(mode, Cluster(contract=contract), variables) is expected


def test_the_launcher_stops_its_program_and_says_why(service: Service, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import signal\nprint('ready', flush=True)\nsignal.pause()\n")
    environment = {**os.environ, **service.variables, "PYTHONPATH": str(tmp_path)}
    environment.pop(DISABLED, None)
    command = [sys.executable, "-m", "drivetrain.training_scripts.launch", "--spot-notice=on", "--script=program.py"]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as launcher:
        service.notice = NOTICE
        out, err = launcher.communicate(timeout=30)
    assert launcher.returncode == 75
    assert "launcher: spot notice: terminate at 2026-11-21T08:22:00Z\n" in out
    assert err == (
        "stopped by the machine's spot notice (terminate at 2026-11-21T08:22:00Z) before the program was done; it can "
        "be tried again.\n"
    )
