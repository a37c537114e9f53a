"""Actions of a page on runs and models: stop, go on, run again, roll back. Each is asked about on a page of its own,
which says what will happen, and is done by what the command line does it with.

A form that is sent twice does its work once: a second signal to a run would take the time away in which a training
saves a checkpoint, a second start would be a second run, and a second rollback would go back by two versions.
"""

from __future__ import annotations

import re
import secrets
import shlex
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import status_word
from drivetrain.base.markup import Content, Markup, el
from drivetrain.operations.models import login
from drivetrain.registry.approving import earlier_champion, make_champion
from drivetrain.run_store.home import Home, SavedRequest, why_not_resumed
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.stopping import stop
from drivetrain.targets.sagemaker.run.options import Request
from drivetrain.telling import section
from drivetrain.telling.content.given import RunAgain, run_again
from drivetrain.ui.answers import Page, Query, error_page, first, plain_page, run_address
from drivetrain.ui.starting import Starts

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry
    from drivetrain.run_store.model import Run
    from drivetrain.telling.content import RunFacts

ACTIONS = ("stop", "resume", "again")
_RESUMABLE = ("Failed", "Stopped", "Interrupted")
_KEY = r"[\w-]{16,64}"


def actions_section(home: Home, run: RunFacts) -> Markup | None:
    """The buttons of a run's page."""
    words = {"stop": "End at once…" if run.stopping else "Stop…", "resume": "Go on…", "again": "Run again…"}
    forms = [
        el("form", el("button", words[action]), action=f"{run_address(run.id)}/{action}", class_="decide")
        for action in ACTIONS
        if _is_possible(home, run.id, run.status, action)
    ]
    return section("Actions", el("div", forms, class_="decide"), id="actions") if forms else None


def _is_possible(home: Home, id: str, status: str, action: str) -> bool:
    folder = home.run(id)
    if action == "stop":
        return status == "Executing"
    if action == "resume":
        return status in _RESUMABLE and SavedRequest.is_kept(folder) and why_not_resumed(folder) is None
    return status != "Executing" and SavedRequest.is_kept(folder) and run_again(Request.load(folder)) is not None


class Actions:
    """Asks, and does."""

    def __init__(self, home: Home, registry: Callable[[], Registry]) -> None:
        self._home = home
        self._registry = registry
        self._guard = threading.Lock()
        self._asked: dict[str, str] = {}
        """Run -> the process that was asked from here to stop it."""
        self.starts = Starts()

    def ask(self, id: str, action: str) -> Page:
        """The page that says what an action on a run will do, with its button."""
        row = self._row(id)
        if not _is_possible(self._home, row.id, row.status, action):
            return error_page(_impossible(row, action), 409)
        if action == "stop":
            return self._ask_to_stop(row)
        if action == "resume":
            said = el("p", f"The run goes on where it was {status_word(row.status)}: finished steps do not run again.")
            hidden = {"key": secrets.token_urlsafe(16)}
            form = _form(f"{run_address(row.id)}/resume", "Go on", hidden)
            return _question(f"Go on with run {row.id}?", said, _command(f"drivetrain runs resume {row.id}"), form)
        return self._ask_to_run_again(row)

    def act(self, id: str, action: str, form: Query) -> Page:
        """Do it."""
        row = self._row(id)
        if action == "stop":
            return self._stop(row, at_once=first(form, "now") == "yes")
        key = first(form, "key")
        if not re.fullmatch(_KEY, key):
            return error_page("The form has no key. Use the buttons of the page.", 400)
        if not _is_possible(self._home, row.id, row.status, action) and not self.starts.state(key):
            return error_page(_impossible(row, action), 409)
        place = ("--json", "--home", str(self._home.root))
        if action == "resume":
            again = run_again(Request.load(self._home.run(row.id)))
            folder = again.folder if again is not None and again.folder.is_dir() else self._home.root
            self.starts.start(key, ("runs", "resume", row.id, *place), folder)
        else:
            again = self._again(row.id)
            if again.why_not is not None:
                return error_page(f"Run {row.id} cannot be started again from here: {again.why_not}.", 409)
            fresh = ("--fresh",) if first(form, "fresh") == "yes" else ()
            self.starts.start(key, (*again.words, *fresh, *place), again.folder)
        return Page(status=303, location=f"/started/{key}")

    def started(self, key: str) -> Page:
        """How far a start is: it begins, it is a run, or it was refused."""
        start = self.starts.get(key)
        code, id = start.code(), start.execution()
        if id is not None:
            link = el("p", "Run ", el("a", el("code", id), href=run_address(id)), " has begun.", role="status")
            return plain_page("Started", section("The run", link, id="started"))
        if code is None:
            said = el("p", "The run begins. ", el("a", "Look again", href=f"/started/{key}"), role="status")
            return plain_page("Started", section("The run", said, id="started"))
        words = start.said() or f"It ended with exit code {code}."
        said = el("p", words, role="alert", class_="mistake")
        return plain_page("Not started", section("The run", said, id="started"))

    def ask_to_roll_back(self, group: str) -> Page:
        """The page that says which version will be the champion, with its button."""
        registry = self._registry()
        earlier_champion(registry, group)  # there is one
        champion, *earlier = [each.version for each in registry.versions(group) if each.status == "Approved"]
        options = [el("option", f"version {number}", value=number) for number in earlier]
        form = el(
            "form",
            el("label", "Back to ", el("select", options, name="to")),
            el("input", name="reason", placeholder="Reason (optional)", aria_label="Reason", maxlength=500),
            el("button", "Roll back", class_="bad"),
            el("input", type="hidden", name="champion", value=champion),
            action=f"/models/{quote(group, safe='')}/rollback",
            method="post",
            class_="decide",
        )
        said = (
            f"Version {champion} is the champion of {group}. The version that you choose takes its place: newer "
            "approved versions are rejected, since the newest one that is approved is the champion."
        )
        return _question(f"Roll back {group}?", el("p", said), _command(f"drivetrain models rollback {group}"), form)

    def roll_back(self, group: str, form: Query) -> Page:
        """Make the chosen version the champion, unless the champion has changed since the page was shown."""
        to, shown = first(form, "to"), first(form, "champion")
        if not re.fullmatch("[0-9]{1,9}", to):
            return error_page("Choose the version to go back to.", 400)
        with self._guard:
            registry = self._registry()
            champion = registry.champion(group)
            if champion is None or str(champion.version) != shown:
                now = "none" if champion is None else f"version {champion.version}"
                return error_page(f"The champion of {group} is {now} by now. Look at the models, then decide.", 409)
            number = earlier_champion(registry, group, int(to))
            make_champion(registry, group, number, reason=first(form, "reason") or None, by=login(), bound=False)
        return Page(status=303, location=f"/models?group={quote(group)}&version={number}")

    def _row(self, id: str) -> Run:
        with Ledger(self._home) as ledger:
            return ledger.execution(id)

    def _holder(self, id: str) -> str:
        file = self._home.lock_file(id)
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def _is_asked(self, row: Run) -> bool:
        return row.stopping or self._asked.get(row.id) == self._holder(row.id)

    def _ask_to_stop(self, row: Run) -> Page:
        address, command = f"{run_address(row.id)}/stop", _command(f"drivetrain runs stop {row.id}")
        if self._is_asked(row):
            said = "It was asked to stop. Asked again, its steps are ended at once: a training saves no checkpoint."
            form = _form(address, "End at once", {"now": "yes"}, class_="bad")
            return _question(f"End run {row.id} at once?", el("p", said), command, form)
        said = (
            "The steps are asked to end; a training saves a checkpoint first. The run ends as stopped, and can go on "
            "from there."
        )
        return _question(f"Stop run {row.id}?", el("p", said), command, _form(address, "Stop", {}, class_="bad"))

    def _stop(self, row: Run, *, at_once: bool) -> Page:
        with self._guard:
            if row.status == "Executing" and self._is_asked(row) and not at_once:
                return Page(status=303, location=run_address(row.id))
            holder = self._holder(row.id)
            try:
                stop(self._home, row.id)
            except UserError as error:
                return error_page(str(error), 409)
            self._asked[row.id] = holder
        return Page(status=303, location=run_address(row.id))

    def _again(self, id: str) -> RunAgain:
        again = run_again(Request.load(self._home.run(id)))
        assert again is not None
        return again

    def _ask_to_run_again(self, row: Run) -> Page:
        again, address = self._again(row.id), f"{run_address(row.id)}/again"
        command = _command(shlex.join(["drivetrain", *again.shown]))
        title = f"Run {row.pipeline} again?"
        if again.why_not is not None:
            said = el("p", f"It cannot be started from here: {again.why_not}. Give the command yourself.")
            return _question(title, said, command)
        told = [
            el("p", "The pipeline is compiled as its file is now, with the settings and parameters of this run."),
            el("p", "Run again: steps with a cache that are the same take their earlier results."),
            el("p", "Run all anew (--fresh): no result and no checkpoint of an earlier run is used."),
        ]
        if row.status == "Interrupted":
            told.insert(1, el("p", "This run was interrupted. If the pipeline is the same, Run again goes on with it."))
        forms = [
            _form(address, "Run again", {"key": secrets.token_urlsafe(16)}),
            _form(address, "Run all anew", {"key": secrets.token_urlsafe(16), "fresh": "yes"}),
        ]
        return _question(title, told, command, el("div", forms, class_="decide"))


def _impossible(row: Run, action: str) -> str:
    is_ = f"Run {row.id} is {status_word(row.shown_status)}"
    if action == "stop":
        return f"{is_}: there is nothing to stop."
    if action == "resume":
        return f"{is_}: it cannot go on."
    if row.status == "Executing":
        return f"{is_}: wait until it ends, or stop it."
    return f"Run {row.id} was not started from a named pipeline, or its folder was removed. Start it where you did."


def _question(title: str, *content: Content) -> Page:
    return plain_page(title, section("What happens", content, id="question"))


def _command(text: str) -> Markup:
    return el("p", "The same on the command line: ", el("code", text))


def _form(address: str, words: str, hidden: dict[str, str], class_: str = "main") -> Markup:
    fields = [el("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
    return el("form", el("button", words, class_=class_), fields, action=address, method="post", class_="decide")
