"""The pages of `drivetrain ui`: the list of 10,000 runs, and what it costs a run to be watched while it goes on.

The page of the run is asked for as a browser does it: every 1.5 s, or later where the server says so, by the tag of
what it has. What counts is the CPU time of the server beside that of the run with all of its processes.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.ui.pages import Pages
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import run
from tests.fixtures.many_runs import write_runs

RUNS, QUICK_RUNS = 10_000, 50
EPOCHS, QUICK_EPOCHS = 150, 5
COMMAND = [sys.executable, "-m", "drivetrain.cli.main"]


def records(bench: Bench) -> Iterator[Record]:
    yield _index(bench)
    yield _watched(bench)


def _index(bench: Bench) -> Record:
    count = QUICK_RUNS if bench.quick else RUNS
    home = Home(bench.folder("many_runs"))
    bench.progress(f"live page: writing {count:,} runs")
    write_runs(home, count)
    pages = Pages(home, lambda: LocalRegistry(home.ledger))
    begun = time.process_time()
    pages.get("/", {})
    return Record(
        name=f"live_page: list of {count:,} runs, CPU",
        unit="s",
        ours=time.process_time() - begun,
        target=1.0,
        note="the first page that a fresh server makes",
    )


def _watched(bench: Bench) -> Record:
    work = bench.folder("watched")
    variables = bench.variables(bench.ours, work)
    settings = ["--set", f"epochs={QUICK_EPOCHS if bench.quick else EPOCHS}", "--set", "min_accuracy=0.5"]
    bench.progress("live page: a run that is watched")
    with _server(work, variables) as server:
        server.get("/")  # imports and templates are the server's, not the page's
        watching = threading.Event()
        viewer = threading.Thread(target=server.watch, args=[watching])
        before = server.cpu()
        viewer.start()
        try:
            ran = run([*COMMAND, "run", "retraining", *settings], cwd=work, environment=variables).checked()
        finally:
            watching.set()
            viewer.join()
        used = server.cpu() - before
    if not server.changes:
        raise RuntimeError("the page did not change while the run went on")
    return Record(
        name="live_page: CPU of the server over that of the run it shows",
        unit="%",
        ours=100 * used / ran.cpu,
        target=1.0,
        note=f"a run of {ran.wall:.0f} s and {ran.cpu:.1f} s of CPU; the page was asked for {server.asked} times, and "
        f"had changed {server.changes} times; the server took {used:.2f} s",
    )


class _Server:
    """A `drivetrain ui`, and a browser's requests to it."""

    def __init__(self, url: str, pid: int) -> None:
        self.pid, self.root = pid, url.partition("/?")[0]
        self.asked = self.changes = 0
        source = (ROOT / "drivetrain" / "ui" / "live.js").read_text(encoding="utf-8")
        found = re.search(r"EVERY_MS = (\d+)", source)
        assert found is not None
        self.every, self.next_s = int(found[1]) / 1000, 0.0
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.opener.open(url).close()  # leaves the cookie

    def cpu(self) -> float:
        """Seconds that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def get(self, path: str, tag: str = "") -> tuple[str, str]:
        """The page and its tag; "" where it has not changed."""
        request = urllib.request.Request(self.root + path, headers={"X-Live": "1", "If-None-Match": tag})
        try:
            with self.opener.open(request) as answer:
                self.next_s = int(answer.headers["X-Next-Ms"]) / 1000
                return answer.read().decode(), answer.headers["ETag"] or ""
        except urllib.error.HTTPError as answer:
            if answer.code != http.client.NOT_MODIFIED:
                raise
            return "", tag

    def watch(self, end: threading.Event) -> None:
        """Look at the list until it names a run, then at its page.

        The list is asked for as often as a page may be: the server would put off a list that names no run yet for
        longer than a short run takes.
        """
        path, tag = "/", ""
        while not end.wait(self.every if path == "/" else max(self.every, self.next_s)):
            page, tag = self.get(path, tag)
            if path == "/" and (found := re.search(r'href="(/runs/[^"]+)"', page)):
                path = found[1]
                page, tag = self.get(path)
            if path != "/":
                self.asked += 1
                self.changes += page != ""


@contextmanager
def _server(work: Path, variables: dict[str, str]) -> Iterator[_Server]:
    process = subprocess.Popen([*COMMAND, "ui", "--json"], cwd=work, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield _Server(said["url"], said["pid"])
    finally:
        process.terminate()
        process.wait()
