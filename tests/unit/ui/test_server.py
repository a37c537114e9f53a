"""The server of the pages: who may ask, what each address gives, and what it costs with ten thousand runs."""

from __future__ import annotations

import errno
import fcntl
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import pytest

import drivetrain as dt
from drivetrain.base.errors import UserError
from drivetrain.cli import main
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.ui.pages import Pages
from drivetrain.ui.server import Server
from tests.fixtures.many_runs import write_runs
from tests.unit.client.test_client import FILE

FORM = "application/x-www-form-urlencoded"


class Asked:
    """A server, and a browser's requests to it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.server = Server(Pages(home, lambda: LocalRegistry(home.ledger)))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.own = {"Cookie": f"{self.server.cookie}={self.server.token}"}
        self.headers: http.client.HTTPMessage

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __call__(self, path: str, *, code: int = 200, body: str | None = None, **headers: str) -> str:
        """The text of an answer; asserts its status. A header is left out where it is given as an empty text."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        given = {**self.own, "Origin": f"http://{self.host}", "Content-Type": FORM}
        given |= {name.replace("_", "-"): text for name, text in headers.items()}
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {name: text for name, text in given.items() if text})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == code, (answer.status, text)
        self.headers = answer.headers
        return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ui")
    (folder / "ui_runs.py").write_text(FILE)
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def runs(place: Path) -> list[dt.Run]:
    return [
        dt.run("ui_runs.py", quiet=True, rows=3, tags={"team": "<b>vision"}),
        dt.run("ui_runs.py", quiet=True, rows=5),
        dt.run("ui_runs.py", quiet=True, rows=5, least=0.9),
    ]


@pytest.fixture(scope="module")
def ask(place: Path, runs: list[dt.Run]) -> Iterator[Asked]:
    asked = Asked(Home())
    yield asked
    asked.close()


def test_the_first_address_has_the_token_and_a_cookie_keeps_it(ask: Asked) -> None:
    path = ask.server.address.partition(ask.host)[2]
    assert ask(path, code=303, Cookie="") == "" and ask.headers["Location"] == "/"
    cookie = str(ask.headers["Set-Cookie"])
    assert ask.server.token in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert "<h1>Runs</h1>" in ask("/")
    assert len(ask.server.token) >= 32


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": ""},
        {"Cookie": "drivetrain=x"},
        {"Host": "attacker.example"},  # a name that leads to this machine
        {"Host": "127.0.0.1"},
        {"Cookie": "\x7f=;;"},
    ],
)
def test_requests_without_the_token_or_with_another_host_are_refused(
    ask: Asked, headers: dict[str, str], runs: list[dt.Run]
) -> None:
    for path in ("/", f"/runs/{runs[0].id}", "/models", "/live.js", "/?token=wrong"):
        said = ask(path, code=403, **headers)
        assert said.startswith("Open the address that `drivetrain ui` has printed") and runs[0].id not in said


MANY_FIELDS = "&".join(f"a{number}=1" for number in range(101))


def raw(ask: Asked, text: str, *headers: str) -> list[str]:
    """The statuses of the answers to a text that no browser would send."""
    host = "" if any(header.startswith("Host:") for header in headers) else f"Host: {ask.host}\r\n"
    with socket.create_connection(("127.0.0.1", ask.server.server_port), timeout=60) as connection:
        request, _, body = text.partition("\n")
        given = "".join(f"{header}\r\n" for header in headers)
        connection.sendall(f"{request} HTTP/1.1\r\n{host}{given}\r\n{body}".encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        answers = b"".join(iter(lambda: connection.recv(65536), b"")).split(b"HTTP/1.1 ")[1:]
    return [answer[:3].decode() for answer in answers]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("http://[/", "400"), (f"/?{MANY_FIELDS}", "400"), ("/?page=%C2%B2", "200"), ("/?where=%00((", "400")),
        *(("/runs/%00", "404"), ("/runs/" + "a" * 5000, "404"), ("/runs/%2e%2e", "404"), ("/runs/**", "404")),
        *(("/models/a/" + "9" * 5000, "404"), ("/models/%00/1", "404"), ("/compare?run=%00", "400")),
    ],
)
def test_odd_addresses_are_client_errors(ask: Asked, capfd: pytest.CaptureFixture[str], path: str, status: str) -> None:
    assert raw(ask, f"GET {path}", f"Cookie: {ask.own['Cookie']}") == [status]
    assert raw(ask, f"GET {path}") == ["403"]
    assert capfd.readouterr().err == ""


def test_odd_requests_are_refused(ask: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    cookie, origin = f"Cookie: {ask.own['Cookie']}", f"Origin: http://{ask.host}"
    assert raw(ask, "GET /", cookie, f"Host: {ask.host}", "Host: example.com") == ["403"]
    # What a GET brings along is no request of its own.
    assert raw(ask, "GET /\nGET /starts HTTP/1.1\r\n\r\n", cookie, "Content-Length: 30") == ["200"]
    assert raw(ask, "POST /models\na=1", cookie, "Origin: http://[", "Content-Length: 3") == ["403"]
    for length, status in (("9" * 5000, "413"), ("\xb2", "413"), (str(len(MANY_FIELDS)), "400")):
        assert raw(ask, f"POST /models\n{MANY_FIELDS}", cookie, origin, f"Content-Length: {length}") == [status]
    assert capfd.readouterr().err == ""


def test_head_and_body_of_a_page_leave_together(ask: Asked) -> None:
    """Sent apart, each page would take 40 ms longer."""
    with socket.create_connection(("127.0.0.1", ask.server.server_port), timeout=60) as connection:
        connection.sendall(f"GET /live.js HTTP/1.1\r\nHost: {ask.host}\r\n\r\n".encode())
        head, _, body = connection.recv(1 << 16).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403") and body.startswith(b"Open the address")


def test_a_cross_site_form_changes_nothing(ask: Asked) -> None:
    form = urlencode({"group": "small", "version": "1", "status": "Approved"})
    for origin in ("", "null", "http://attacker.example", "https://" + ask.host, f"http://{ask.host}.attacker.example"):
        assert "must be sent from a page of this server" in ask("/models", code=403, body=form, Origin=origin)
    ask("/models", code=403, body=form, Cookie="")
    assert "at most 65,536 bytes" in ask("/models", code=413, body="x" * 65_537)
    assert LocalRegistry(ask.home.ledger).version("small", 1).status == "PendingManualApproval"


def test_the_list_is_filtered_sorted_and_shows_errors(ask: Asked, runs: list[dt.Run]) -> None:
    page = ask("/")
    assert [page.index(run.id) for run in reversed(runs)] == sorted(page.index(run.id) for run in runs)
    assert "&lt;b&gt;vision" in page and "<b>vision" not in page
    assert 'aria-label="Choose ' in page and "Skip to the content" in page
    page = ask("/?" + urlencode({"where": "rows = 3 or accuracy < 0", "sort": "-accuracy"}))
    assert runs[0].id in page and runs[1].id not in page and 'aria-sort="descending"' in page
    page = ask("/?" + urlencode({"where": 'acuracy > "<i>"'}), code=400)
    assert "Did you mean &#x27;accuracy&#x27;" in page and 'aria-invalid="true"' in page and "<i>" not in page
    assert "No run fits." in ask("/?pipeline=none") and "No run fits." not in ask("/?page=nonsense")


def test_the_page_of_a_run_and_a_comparison(ask: Asked, runs: list[dt.Run]) -> None:
    page = ask(f"/runs/{runs[2].id}")
    assert "It wrote nothing." in page  # a step of type Fail has no program
    assert "Log of stop" in page and "What went wrong" in page and '<script src="/live.js" defer="">' in page
    assert "accuracy, decides" in page  # by a condition
    assert "script-src &#x27;self&#x27;" in page and "Log of" not in ask(f"/runs/{runs[0].id}")
    assert ask(f"/runs/{runs[0].id[:6]}", code=303) == "" and ask.headers["Location"] == f"/runs/{runs[0].id}"
    assert "No execution" in ask("/runs/nothing", code=404) and "no such page" in ask("/other", code=404)
    ask("/runs/..%2F..%2Fledger.db", code=404)
    page = ask(f"/compare?run={runs[0].id}&run={runs[1].id}")
    assert "Settings that differ" in page and "fit.rows" in page
    assert "Choose two runs or more" in ask(f"/compare?run={runs[0].id}", code=400)


def test_columns_are_chosen_by_the_address(ask: Asked, runs: list[dt.Run]) -> None:
    text = ask("/?" + urlencode({"column": ["rows", "<b>none"], "sort": "-started"}, doseq=True))
    assert ">&lt;b&gt;none<" in text and "<b>none" not in text
    assert 'data-name="rows">5</td>' in text and "Columns: 2 chosen" in text
    assert "column=rows" in text.partition("<tbody>")[0]  # sorting keeps them
    assert "Columns: the usual ones" in ask("/") and 'name="column"' in ask("/")
    offered = re.findall(r'name="column" value="([^"]+)"', ask("/"))
    assert offered.index("fit.rows") < offered.index("fit.machine")  # first those that are not the same in all runs


def test_a_page_is_sent_again_when_something_has_changed(ask: Asked, runs: list[dt.Run]) -> None:
    ask(f"/runs/{runs[0].id}")
    tag = str(ask.headers["ETag"])
    assert ask(f"/runs/{runs[0].id}", code=304, X_Live="1", If_None_Match=tag) == ""
    assert runs[0].id in ask(f"/runs/{runs[0].id}", If_None_Match=tag)  # a reload is a reload
    runs[0].label(note="looked at")
    assert "looked at" in ask(f"/runs/{runs[0].id}", X_Live="1", If_None_Match=tag)


@pytest.mark.parametrize(("took", "next_ms"), [(0.001, 200), (0.02, 4000), (1.0, 10_000)])
def test_expensive_pages_are_polled_less_often(
    ask: Asked, runs: list[dt.Run], monkeypatch: pytest.MonkeyPatch, took: float, next_ms: int
) -> None:
    """So that a page which somebody leaves open takes half a percent of a core."""
    clock = iter([5.0, 6.0, 7.0, 7.0 + took, 8.0, 9.0])
    monkeypatch.setattr("drivetrain.ui.server.time", SimpleNamespace(thread_time=lambda: next(clock)))
    monkeypatch.setattr(ask.server, "took", {})
    waits: list[int] = []
    for _ in range(3):
        ask(f"/runs/{runs[0].id}")
        waits.append(int(str(ask.headers["X-Next-Ms"])))
    assert waits == [0, next_ms, next_ms]  # what a page takes once, of two times, is not what it takes


def test_running_runs_show_progress_and_log(ask: Asked, runs: list[dt.Run]) -> None:
    home = ask.home
    with home.lock(runs[1].id), LedgerWriter(home) as ledger:
        with ledger.transaction() as db:
            db.execute("UPDATE executions SET status = 'Executing', ended = NULL WHERE id = ?", (runs[1].id,))
            sql = "UPDATE steps SET status = 'Executing', ended = NULL WHERE execution = ? AND name = 'score'"
            db.execute(sql, (runs[1].id,))
        page = ask(f"/runs/{runs[1].id}")
        assert "Log of score" in page and 'aria-label="4 of 5 steps are over"' in page
        log = next(home.logs(runs[1].id, "score", 1).glob("*.log"))
        tag = str(ask.headers["ETag"])
        with log.open("a") as file:
            file.write("epoch <3>\n")
        assert "epoch &lt;3&gt;" in ask(f"/runs/{runs[1].id}", X_Live="1", If_None_Match=tag)
        assert '<span class="status is-executing">running</span>' in ask("/")
        ledger.facts = Facts(runs[1].id, "small", "us-east-1", "000000000000", 0.0)
        ledger.stop(runs[1].id)
        for path in ("/", f"/runs/{runs[1].id}"):
            assert '<span class="status is-stopping">stopping</span>' in ask(path)
    killed = ask(f"/runs/{runs[1].id}")  # nobody holds its lock now
    assert 'is-interrupted">interrupted' in killed and "Log of score" in killed and "epoch &lt;3&gt;" in killed
    with LedgerWriter(home) as ledger:
        with ledger.transaction() as db:
            db.execute("UPDATE steps SET status = 'Stopped' WHERE execution = ? AND name = 'score'", (runs[1].id,))
        assert "Log of score" in ask(f"/runs/{runs[1].id}")
        with ledger.transaction() as db:
            db.execute("UPDATE executions SET status = 'Succeeded', ended = 1 WHERE id = ?", (runs[1].id,))
            db.execute("UPDATE steps SET status = 'Succeeded' WHERE execution = ? AND name = 'score'", (runs[1].id,))


def test_a_version_is_approved_and_rejected(ask: Asked) -> None:
    page = ask("/models")
    assert 'aria-label="Approve small version 1"' in page and "waiting for approval" in page
    assert 'href="/models/small/1"' in page and ">champion<" not in page
    card = ask("/models/small/1")
    assert "<h1>small version 1</h1>" in card and "The run that made it" in card and "How to use it" in card
    assert ">accuracy</th>" in card
    ask("/models/small/9", code=404)
    form = {"group": "small", "version": "1", "status": "Approved", "reason": "good <enough>"}
    ask("/models", code=303, body=urlencode(form))
    page = ask(str(ask.headers["Location"]))
    assert "small version 1 is approved." in page and "good &lt;enough&gt;" in page
    assert page.count('<span class="tag">champion</span>') == 1
    assert 'aria-label="Approve small version 1"' not in page and 'aria-label="Reject small version 1"' in page
    version = LocalRegistry(ask.home.ledger).events("small")[-1]
    assert (version.status, version.reason) == ("Approved", "good <enough>") and version.by
    ask("/models", code=303, body=urlencode({**form, "status": "Rejected", "reason": ""}))
    assert LocalRegistry(ask.home.ledger).version("small", 1).status == "Rejected"
    assert "nothing else" in ask("/models", code=400, body=urlencode({**form, "status": "Deleted"}))
    ask("/models", code=404, body=urlencode({**form, "group": "none"}))
    ask("/runs/x", code=404, body=urlencode(form))


def test_runs_started_by_triggers_are_listed(ask: Asked) -> None:
    assert "No schedule or event has started anything here." in ask("/starts")
    folder = ask.home.root / "serving"
    folder.mkdir()
    (folder / "started.jsonl").write_text(
        '{"pipeline": "small", "name": "small-approved-1", "started": "2026-11-26T00:00:00+00:00", "parameters": []}\n'
        '{"pipeline": "small", "name": "small-approved-1", "forgotten": true}\n{"half'
    )
    page = ask("/starts")
    assert "small-approved-1" in page and "2026-11-26 00:00:00" in page and "not run: the server ended" in page


def _refused(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_served_pipelines_show_their_next_start(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.serve.runs import Served
    from drivetrain.serve.server import of_pipeline
    from drivetrain.spec.pipeline import Limit, Pipeline, RegistryEvent, Schedule, Upload

    folder = ask.home.root / "serving"
    folder.mkdir(exist_ok=True)
    triggers = [
        Schedule(name="yearly", cron="30 4 1 1 ? *"),
        Schedule(name="resting", rate="1 day", enabled=False),
        RegistryEvent(name="approved", group="small", limit=Limit(starts=2)),
        RegistryEvent(name="promoted", group="small", status=None, stage="Production"),
        Upload(name="new-rows", bucket="lake"),
    ]
    served = Served(Pipeline(name="small", steps=(), triggers=tuple(triggers)), ())
    (folder / "served.json").write_text(json.dumps([of_pipeline(served)]))
    assert "Nothing is served now" in ask("/starts")  # it was killed, and left the file behind
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        page = ask("/starts")
    with monkeypatch.context() as without_locks:
        without_locks.setattr(fcntl, "flock", _refused)
        assert "Nothing is served now" in ask("/starts")  # where locks are not to be had, serve does not start
    year = datetime.now(UTC).year
    assert all(text in page for text in (f"{year + 1}-01-01 04:30", f"{year + 3}-01-01 04:30", "off"))
    assert "a model of small: Approved, changed ModelApprovalStatus; at most 2 in 1 day<" in page
    assert "stage Production, changed ModelLifeCycle (not seen here)" in page
    assert page.count("(not seen here)") == 2
    assert "Nothing is served now" not in page


def test_runs_can_be_looked_at_without_locks(ask: Asked, runs: list[dt.Run], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without_locks:
        without_locks.setattr(fcntl, "flock", _refused)
        assert runs[0].id in ask(f"/runs/{runs[0].id}")


def test_a_killed_runner_is_noticed(ask: Asked, runs: list[dt.Run]) -> None:
    with ask.home.lock(runs[0].id):
        ask(f"/runs/{runs[0].id}")
        tag = str(ask.headers["ETag"])
        ask(f"/runs/{runs[0].id}", code=304, X_Live="1", If_None_Match=tag)
    ask(f"/runs/{runs[0].id}", code=200, X_Live="1", If_None_Match=tag)


def test_the_command_prints_the_address_and_ends_by_ctrl_c(place: Path, runs: list[dt.Run]) -> None:
    command = [sys.executable, "-m", "drivetrain.cli.main", "ui"]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        connection.request("GET", f"/?{address.query}")
        answer = connection.getresponse()
        cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
        assert answer.status == 303
        answer.read()
        connection.request("GET", "/", headers={"Cookie": cookie})
        assert runs[0].id in connection.getresponse().read().decode()
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_script_gets_the_address(
    place: Path, runs: list[dt.Run], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: os.kill(os.getpid(), signal.SIGTERM))
    assert main.run(["ui", "--json", "--open"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["url"] == f"http://127.0.0.1:{told['port']}/?token={told['token']}" and told["pid"] == os.getpid()
    assert main.run(["ui", "--json", "--open", "--home", str(place / "mistyped")]) == 0
    assert f"note: Nothing has been run yet. There is no folder {place / 'mistyped'}." in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused(ask: Asked) -> None:
    with pytest.raises(UserError, match=r"cannot be had: .*Give another --port"):
        Server(ask.server.pages, ask.server.server_port)


@pytest.mark.slow
def test_the_list_of_ten_thousand_runs_takes_less_than_a_second_of_cpu(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_runs(home, 10_000)
    pages = Pages(home, lambda: LocalRegistry(home.ledger))
    start = time.process_time()
    first = pages.get("/", {}).text
    deep = pages.get("/", {"page": ["150"], "where": ["epochs > 10"], "sort": ["-accuracy"]}).text
    used = time.process_time() - start
    assert "10,000 runs" in first and "page 1 of 200" in first and first.count("<tr>") == 51
    assert "7,800 runs" in deep and "page 150 of 156" in deep
    assert used <= 1.0, used
