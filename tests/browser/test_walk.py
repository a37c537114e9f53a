"""A person's way through the pages, in a real browser: run, watch, compare, approve, see the retraining start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from drivetrain.components import Card
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.telling.content import RunFacts
from drivetrain.telling.content.card import read_card
from drivetrain.telling.content.evaluation import evaluation
from drivetrain.telling.page import render
from drivetrain.telling.page.evaluation_section import evaluation_page
from drivetrain.training.launch.processes.parent import follows_parent
from drivetrain.training.metric import Samples
from drivetrain.training.metrics.threshold import Metric
from drivetrain.training.task import Task
from drivetrain.ui.pages import Pages
from drivetrain.ui.server import Server
from tests.fixtures.browser import Browser, program, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="no Chromium here: apt-get install chromium"),
]

# `shop` trains until it is let go on, and registers; an approval of its model starts `follow`.
PIPELINES = """
from drivetrain import Pipeline, RegistryEvent, Settings, register, step
from drivetrain.components import Card, Input, Output, component


class Shop(Settings):
    until: str = ""
    rate: float = 0.5


@component(job="training", logs={"validation_loss": r"loss=([0-9.]+)"})
def fit(model: Output, until: str = "", rate: float = 0.5) -> None:
    import time
    from pathlib import Path

    (model / "model.txt").write_text(str(rate))
    for place in range(4):
        print(f"step {place} loss={rate / (place + 1):.3f}", flush=True)
    while until and not Path(until).exists():
        time.sleep(0.05)


@component
def score(model: Input, report: Output, rate: float = 0.5) -> dict[str, float]:
    card = Card(report, title="Scores").text("Seen by *district*").table([{"district": "north", "price": rate}])
    card.chart("price", [rate, rate / 2]).html("<p>a frame</p>", "of the step", height=60)
    return {"accuracy": rate}


@component
def retrain(model: Output) -> None:
    (model / "model.txt").write_text("again")


def shop(settings: Shop) -> Pipeline:
    model = step(fit, until=settings.until, rate=settings.rate)
    scores = step(score, model=model["model"], rate=settings.rate)
    version = register(model=model["model"], metrics=scores, group="shop")
    return Pipeline(name="shop", steps=[model, scores, version])


def follow() -> Pipeline:
    approved = RegistryEvent(name="approved", group="shop")
    return Pipeline(name="follow", steps=[step(retrain)], triggers=[approved])
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "shop_pipelines.py").write_text(PIPELINES)
    return Home(tmp_path / "home")


@pytest.fixture
def address(home: Home) -> Iterator[str]:
    server = Server(Pages(home, lambda: LocalRegistry(home.ledger)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.address
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def started(home: Home, *words: str) -> subprocess.Popen[bytes]:
    """The command line, in the folder of the pipelines; what it prints is in the file output.txt."""
    folder = home.root.parent
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "drivetrain.cli.main", *words, "--home", str(home.root)],
            cwd=folder,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=follows_parent(signal.SIGKILL),
        )


def test_run_watch_compare_approve_and_see_the_retraining_start(home: Home, address: str, browser: Browser) -> None:
    go_on = home.root.parent / "go-on"
    target = "shop_pipelines.py:shop"
    assert started(home, "run", target, "--set", "rate=0.25", "--tag", "team=shop").wait(120) == 0
    browser.open(address)
    browser.wait_for("1 run")
    run = started(home, "run", target, "--set", f"until={go_on}")
    browser.wait_for("running", "#content")  # it appears by itself
    browser.leave_by(lambda: browser.click(".runs tbody tr:first-child a"))
    browser.wait_for("loss=0.125", "#log-tail")
    browser.wait_for("Training", "#training")
    assert "running" in browser.text("header") and browser.run("document.querySelector('progress').value") == 0
    go_on.touch()
    browser.wait_for("succeeded", "header")
    browser.wait_for("0.5000", ".tiles")
    assert browser.run("document.querySelector('#log-tail')") is None
    assert "step of fit" in browser.run("document.body.textContent")
    assert "Seen by district" in browser.text() and "north" in browser.text()
    assert browser.run("document.querySelector('iframe').getAttribute('sandbox')") == ""
    assert "Changed since the run before" in browser.text() and "dt.Run(" in browser.text()
    assert run.wait(60) == 0

    browser.leave_by(lambda: browser.click("nav.pages a"))
    browser.wait_for("2 runs")
    for row in (1, 2):
        browser.click(f".runs tbody tr:nth-child({row}) input")
    browser.leave_by(lambda: browser.click(".bar button"))
    browser.wait_for("Settings that differ")
    assert "rate" in browser.text() and "0.25" in browser.text()

    serving = started(home, "serve", "shop_pipelines.py:follow")
    until(lambda: b"serving; Ctrl-C ends" in (home.root.parent / "output.txt").read_bytes())
    browser.leave_by(lambda: browser.click("nav.pages a[href='/models']"))
    browser.wait_for("waiting for approval")
    browser.leave_by(lambda: browser.click("button[aria-label='Approve shop version 2']"))
    browser.wait_for("shop version 2 is approved.")
    browser.open(address.partition("/?")[0] + "/?pipeline=follow")
    browser.wait_for("succeeded", "#content")
    browser.leave_by(lambda: browser.click("nav.pages a[href='/starts']"))
    browser.wait_for("follow")
    serving.send_signal(signal.SIGINT)
    assert serving.wait(60) == 0
    assert browser.errors == []


def test_keyboard_navigation_works_and_every_width_fits(home: Home, address: str, browser: Browser) -> None:
    for rate in ("0.25", "0.5"):
        assert started(home, "run", "shop_pipelines.py:shop", "--set", f"rate={rate}", "--tag", "t=1").wait(120) == 0
    base = address.partition("/?")[0]
    browser.open(address)
    ids = browser.run("[...document.querySelectorAll('input[name=run]')].map((e) => e.value)")
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.textContent") == "Skip to the content"
    browser.run("document.querySelector('input[name=where]').focus()")
    browser.write("rate > 0.3")
    browser.leave_by(lambda: browser.press("Enter", 13, "\r"))
    browser.wait_for("1 run")
    assert browser.run("document.querySelector('input[name=where]').value") == "rate > 0.3"
    run = f"/runs/{ids[0]}"
    pages = ["/", "/models", "/models/shop/1", "/starts", f"/compare?run={ids[0]}&run={ids[1]}"]
    pages += [run, f"{run}/again", f"{run}/steps/score", f"{run}/steps/score/files/report/card.json"]
    for width, dark in ((400, False), (400, True), (900, False), (1800, True)):
        browser.look(width, dark=dark)
        for page in pages:
            browser.open(base + page)
            assert browser.wrong() == [], (page, width, dark)
    browser.run("document.querySelector('h1').style.color = 'var(--line)'")  # it does look
    assert any("color-contrast" in each for each in browser.wrong())
    browser.look(400)
    browser.run("document.querySelector('section').append(document.createElement('pre'))")
    browser.run("Object.assign(document.querySelector('section > pre:last-child'), {innerHTML: '0'.repeat(999)})")
    browser.run("document.querySelector('section > pre:last-child').style.overflowWrap = 'normal'")
    assert any("out of sight" in each for each in browser.wrong())
    assert browser.errors == []


def test_a_step_cannot_run_scripts_on_the_page(tmp_path: Path, browser: Browser) -> None:
    attack = "<p id='there'>seen</p><script>top.document.title = document.title = 'taken'</script>"
    Card(tmp_path).text("<script>document.title = 'taken'</script>").html(attack)
    card = read_card("look", tmp_path)
    assert card is not None
    text = render(RunFacts(id="a", pipeline="p", status="Succeeded", started=0, ended=1, cards=(card,)))
    page, careless = tmp_path / "page.html", tmp_path / "careless.html"
    page.write_text(text)
    careless.write_text(text.replace('sandbox=""', "").replace("default-src &#x27;none&#x27;", ""))
    browser.open(careless.as_uri())
    until(lambda: browser.run("document.title") == "taken")  # it would be seen
    browser.open(page.as_uri())  # it is there when its frames are
    assert browser.run("document.title").startswith("p") and browser.run("document.scripts.length") == 0


def test_cost_sliders_work_by_keyboard_without_a_server(tmp_path: Path, browser: Browser) -> None:
    random = np.random.default_rng(0)
    scores = random.random(2_000)
    samples = Samples(scores=scores, targets=(random.random(2_000) < scores).astype(np.int64))
    task, metric = Task("binary", 2), Metric()
    cells = tally_of(metric, task, samples)
    given = {"metrics": {"overall": {}}, "num_samples": 2_000, "task": {"class_names": ["benign", "malignant"]}}
    wide = {"row": 3, "loss": 2.5, "columns": {f"m{number}": -0.6723 for number in range(30)}}
    found = evaluation("e", given, {"threshold": metric.curves(task, cells)[""]}, worst={"samples": [wide]})
    page = tmp_path / "page.html"
    page.write_text(evaluation_page("e", [found], [], written=0.0))
    browser.look(400)
    browser.open(page.as_uri())
    before = browser.text(".costs .found")
    assert browser.run("document.querySelectorAll('.costs input').length") == 2 and "Cheapest threshold" in before
    # A table of many columns goes on sideways.
    assert [each for each in browser.wrong() if not each.startswith('out of sight: <div class="scroll')] == []
    assert [browser.text(f".costs div:nth-of-type({n}) small") for n in (1, 2)] == [
        "benign taken for malignant",
        "malignant taken for benign",
    ]
    assert browser.run("document.querySelector('.worst td:last-child').offsetHeight") < 50  # a number is on one line
    browser.run("document.querySelectorAll('.costs input')[1].focus()")
    for _ in range(20):  # ten times as dear
        browser.press("ArrowRight", 39)
    assert browser.run("document.activeElement.getAttribute('aria-valuetext')") == "10"
    dear = Metric(false_negative_cost=10.0)
    chosen = dear.compute(task, tally_of(dear, task, samples))
    said = browser.text(".costs .found")
    assert f"cost a sample {chosen['cost'].value:.4g}, " in said and said != before
    assert f"recall {chosen['recall'].value:.4g};" in said
    assert browser.errors == []


def tally_of(metric: Metric, task: Task, samples: Samples) -> dict[str, np.ndarray]:
    """What the metric counts of the samples."""
    found: dict[str, np.ndarray] = {}
    for name, tally in metric.tallies(task).items():
        cells, _ = tally.count(samples)
        found[name] = np.bincount(cells.ravel(), minlength=tally.size)
    return found
