"""Pages by their addresses, each whole; a script of the page asks again, and takes what has changed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import quote

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import approval_words
from drivetrain.base.markup import Markup, el
from drivetrain.operations.concluding import enter_missing
from drivetrain.operations.models import login
from drivetrain.registry.approving import make_champion
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.telling import section
from drivetrain.telling.content.comparison import compare
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.content.index import Index, index
from drivetrain.telling.content.logs import tail
from drivetrain.telling.page import Drawn, render
from drivetrain.telling.page.card_page import card_page
from drivetrain.telling.page.comparison_page import comparison_page
from drivetrain.telling.page.index_page import Asked, index_page
from drivetrain.telling.page.registry_page import registry_page
from drivetrain.ui.actions import Actions, actions_section
from drivetrain.ui.answers import Page, Query, around, error_page, first, run_address, step_address

if TYPE_CHECKING:
    from pathlib import Path

    from drivetrain.registry.registry import ModelVersion, Registry
    from drivetrain.telling.content import RunFacts

LOG_LINES = 200
MAX_COMPARED = 12
# Of so many runs the page's sections are kept as they were drawn last.
MAX_DRAWN = 8
MAX_PAGE = 1_000_000
# Any other is no run's, and perhaps no file's name.
_RUN_ID = r"\w[\w.-]{0,99}"
# A run's page ends with the log of a step in the first of these states.
_LOGGED = ("Executing", "Failed", "Interrupted", "Stopped")
# What most pages are made of, and import where they need it.
_PARTS = (
    *("content.index", "content.from_ledger", "content.from_definition", "content.datasets", "content.evaluation"),
    *("content.health", "content.job_times", "content.saved_state", "charts.curves"),
    *(
        "page.index_page",
        "page",
        "page.data_section",
        "page.decision_section",
        "page.evaluation_section",
        "page.health_section",
    ),
)


class Pages:
    """The pages of a home and the registry that goes with it."""

    def __init__(self, home: Home, registry: Callable[[], Registry]) -> None:
        self.home = home
        self._registry = registry
        self._drawn = lru_cache(MAX_DRAWN)(_nothing_drawn)

    @cached_property
    def _actions(self) -> Actions:
        return Actions(self.home, self._registry)

    def prepare(self) -> None:
        """Import what pages need, while nobody waits: the first one then comes nearly as soon as the others."""
        for name in _PARTS:
            import_module(f"drivetrain.telling.{name}")

    def get(self, path: str, query: Query) -> Page:
        """The page at an address.

        Raises:
            UserError: what was asked for is not there.
        """
        match path.split("/")[1:]:
            case [""]:
                return self._index(query)
            case ["models"]:
                return self._models(query)
            case ["models", group, "rollback"]:
                return self._actions.ask_to_roll_back(group)
            case ["models", group, version]:
                return self._card(group, version)
            case ["compare"]:
                return self._compare(query.get("run", []), query.get("chart", []))
            case ["starts"]:
                from drivetrain.ui.triggers_page import triggers_page

                return Page(triggers_page(self.home, around("/starts")))
            case ["started", key]:
                return self._actions.started(key)
            case ["runs", run]:
                return self._run(run, query.get("chart", []))
            case ["runs", run, "steps", *parts] if parts and re.fullmatch(_RUN_ID, run):
                from drivetrain.ui.files import step_files

                return step_files(self.home, run, parts, query)
            case ["runs", run, "stop" | "resume" | "again" as action]:
                return self._actions.ask(run, action)
            case _:
                return error_page("There is no such page.", 404)

    def post(self, path: str, form: Query) -> Page:
        """Do what a form asks for."""
        match path.split("/")[1:]:
            case ["models"]:
                return self._decide(form)
            case ["models", group, "rollback"]:
                return self._actions.roll_back(group, form)
            case ["runs", run, "stop" | "resume" | "again" as action]:
                return self._actions.act(run, action, form)
            case _:
                return error_page("There is no such page.", 404)

    def changed(self, path: str) -> str:
        """A text that is another one when a page may have changed: cheap, for it is asked for all the time."""
        files: list[Path] = [self.home.ledger, self.home.ledger.with_name(self.home.ledger.name + "-wal")]
        at_work = None
        if path.startswith("/runs/") and re.fullmatch(_RUN_ID, id := path.split("/")[2]):
            files += sorted(self.home.run(id).glob("*/attempt-*/logs/*.log"))
            with suppress(UserError):  # without locks nothing runs there, and what lies there can be read
                at_work = self.home.is_running(id)  # a runner that is killed changes no file
        elif path == "/starts":
            files += [self.home.root / "serving" / name for name in ("started.jsonl", "served.json")]
            at_work = int(time.time() / 60)  # the next times change by themselves
        elif path.startswith("/started/"):
            at_work = self._actions.starts.state(path.removeprefix("/started/"))
        stamps = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]
        return json.dumps([stamps, at_work])

    def _index(self, query: Query) -> Page:
        where, sort, pipeline = (query.get(name, [""])[0].strip() for name in ("where", "sort", "pipeline"))
        number = query.get("page", ["1"])[0]
        page = int(number) if number.isascii() and number.isdigit() and 0 < int(number[:9]) <= MAX_PAGE else 1
        columns = tuple(dict.fromkeys(name for name in query.get("column", []) if name))
        asked = Asked(where=where, sort=sort, pipeline=pipeline, page=page, columns=columns)
        enter_missing(self.home)
        mistake, found = "", Index()
        with Ledger(self.home) as ledger:
            try:
                found = index(
                    ledger,
                    where=where or None,
                    sort=sort or None,
                    pipeline=pipeline or None,
                    columns=columns,
                    limit=asked.per_page,
                    offset=(page - 1) * asked.per_page,
                )
            except UserError as error:
                mistake = str(error)
                found = Index(pipelines=index(ledger, limit=1).pipelines)
        asked = replace(asked, mistake=mistake)
        text = index_page(found, asked, around("/"), run_address, pages=None)
        return Page(text, 400 if mistake else 200)

    def _run(self, execution: str, charts: list[str]) -> Page:
        with Ledger(self.home) as ledger:
            facts = run_facts(ledger, execution)
        if facts.id != execution:
            return Page(location=run_address(facts.id), status=303)

        served = [actions_section(self.home, facts), self._log(facts)]
        text = render(
            facts,
            around=around(),
            served=served,
            drawn=self._drawn(execution),
            step_address=lambda step: step_address(execution, step),
            charts=charts,
        )
        return Page(text)

    def _log(self, facts: RunFacts) -> Markup | None:
        """The end of what is written now, of a run that goes on; or of what failed, else of what was cut off."""
        by_status = {step.status: step for step in facts.steps}  # the last of each
        step = next((by_status[status] for status in _LOGGED if status in by_status), None)
        if step is None:
            return None
        logs = sorted(self.home.logs(facts.id, step.name, max(step.attempts, 1)).glob("*.log"))
        texts = [(log.stem, "\n".join(tail(log).splitlines()[-LOG_LINES:])) for log in logs]
        written = "\n".join(f"{host}:\n{text}" if len(texts) > 1 else text for host, text in texts)
        nothing = "Nothing is written yet." if step.status == "Executing" else "It wrote nothing."
        shown = el("pre", written or nothing, id="log-tail", tabindex=0, aria_label="End of the log")
        whole = el("p", el("a", "Whole log and files", href=step_address(facts.id, step.name)))
        return section(f"Log of {step.title}", shown, whole, id="log")

    def _compare(self, runs: list[str], charts: list[str]) -> Page:
        if len(runs) < 2:
            return error_page("Choose two runs or more in the list, then compare them.", 400)
        if len(runs) > MAX_COMPARED:
            return error_page(f"{len(runs)} runs are chosen. Choose at most {MAX_COMPARED}.", 400)
        return Page(comparison_page(compare(self.home, runs), around=around(), charts=charts))

    def _models(self, query: Query) -> Page:
        registry = self._registry()
        groups = {group.name: registry.versions(group.name) for group in registry.groups()}
        told = self._told(groups, query)
        return Page(registry_page(groups, around("/models"), run_address, card_address, decides=True, told=told))

    def _card(self, group: str, version: str) -> Page:
        found = self._registry().version(group, version)
        run = found.lineage.get("execution", "").rpartition("/")[2]
        there = bool(run) and self.home.run(run).is_dir()
        return Page(card_page(found, around("/models"), run_address(run) if there else None))

    def _told(self, groups: Mapping[str, list[ModelVersion]], query: Query) -> str | None:
        """The sentence about a decision: on the version in the address, as it is now."""
        group, version = query.get("group", [""])[0], query.get("version", [""])[0]
        found = next((one for one in groups.get(group, []) if str(one.version) == version), None)
        return f"{group} version {version} is {approval_words(found.status)}." if found else None

    def _decide(self, form: Query) -> Page:
        group, version, status, reason = (first(form, name) for name in ("group", "version", "status", "reason"))
        if status not in ("Approved", "Rejected"):
            return error_page("A version is approved or rejected, nothing else.", 400)
        registry = self._registry()
        number = registry.version(group, version).version

        by = login()
        if status == "Approved":
            make_champion(registry, group, number, reason=reason or None, by=by)
        else:
            registry.set_status(group, number, "Rejected", reason=reason or None, by=by)
        return Page(status=303, location=f"/models?group={quote(group)}&version={number}")


def card_address(group: str, version: int) -> str:
    """The address of a version's card."""
    return f"/models/{quote(group, safe='')}/{version}"


def _nothing_drawn(execution: str) -> Drawn:
    return Drawn()
