"""A person acts on runs and models from the pages: stop, go on, run again, look at files, roll back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivetrain.registry.approving import make_champion
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.ui.pages import Pages
from drivetrain.ui.server import Server
from tests.browser.test_walk import PIPELINES, started
from tests.fixtures.browser import Browser, program, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="no Chromium here: apt-get install chromium"),
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "shop_pipelines.py").write_text(PIPELINES)
    return Home(tmp_path / "home")


@pytest.fixture
def base(home: Home) -> Iterator[str]:
    server = Server(Pages(home, lambda: LocalRegistry(home.ledger)), token="t" * 32)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://{server.hosts[0]}"
    server.shutdown()
    server.server_close()
    thread.join()


def follow(browser: Browser, selector: str) -> None:
    """Press a button or a link in one go: a page that follows a run may move under a mouse."""
    browser.leave_by(lambda: browser.run(f"document.querySelector({json.dumps(selector)}).click()"))


def test_stop_resume_run_again_view_files_and_roll_back(home: Home, base: str) -> None:
    go_on = home.root.parent / "go-on"
    run = started(home, "run", "shop_pipelines.py:shop", "--set", f"until={go_on}")
    with Browser() as browser:
        browser.open(f"{base}/?token={'t' * 32}")
        browser.wait_for("running", "#content")
        follow(browser, ".runs tbody tr:first-child a")
        browser.wait_for("loss=0.125", "#log-tail")
        page = browser.run("location.href")
        follow(browser, "form[action$='/stop'] button")
        browser.wait_for("saves a checkpoint first")
        assert browser.wrong() == []
        follow(browser, "form[action$='/stop'] button")
        browser.wait_for("stopped", "header")
        assert run.wait(60) != 0

        go_on.touch()
        browser.wait_for("Go on", "#content")
        follow(browser, "form[action$='/resume'] button")
        follow(browser, "form[action$='/resume'] button")
        browser.wait_for("has begun")
        follow(browser, "#content a")
        browser.wait_for("succeeded", "header")
        assert browser.run("location.href") == page

        follow(browser, "form[action$='/again'] button")
        browser.wait_for("take their earlier results")
        # Twice, as an impatient hand does: one run.
        twice = "const b = document.querySelector('form[action$=\"/again\"] button'); b.click(); b.click();"
        browser.leave_by(lambda: browser.run(twice))
        browser.wait_for("has begun")
        follow(browser, "#content a")
        browser.wait_for("succeeded", "header")
        assert "from the cache" in browser.text("header")
        with Ledger(home) as ledger:
            assert len(ledger.executions()) == 2

        browser.open(page)
        follow(browser, ".steps th a[href$='/steps/score']")
        browser.wait_for("Output report")
        assert browser.wrong() == []
        follow(browser, "a[aria-label='Show card.json']")
        browser.wait_for("district", "pre")
        browser.open(page + "/steps/fit")
        follow(browser, "a[href*='/log/']")
        browser.wait_for("loss=0.125")

        registry = LocalRegistry(home.ledger)
        assert started(home, "run", "shop_pipelines.py:shop", "--set", "rate=0.25").wait(120) == 0
        for version in (1, 2):
            make_champion(registry, "shop", version)
        browser.open(f"{base}/models")
        follow(browser, "form[action$='/rollback'] button")
        browser.wait_for("Version 2 is the champion")
        for width in (400, 1100):
            browser.look(width)
            assert browser.wrong() == []
        follow(browser, "form[action$='/rollback'] button")
        browser.wait_for("shop version 1 is approved.")
        until(lambda: registry.version("shop", 2).status == "Rejected")
        assert browser.errors == []
