"""The page of triggers: what `drivetrain serve` waits for here, its next start, and its earlier ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from drivetrain.base.file_locks import hold
from drivetrain.base.markup import Content, Markup, el
from drivetrain.run_store.home import Home
from drivetrain.telling import Around, document, listing, section

MAX_STARTS = 200
NEXT_TIMES = 3
TITLE = "Triggers"


def triggers_page(home: Home, around: Around) -> str:
    """The whole page."""
    folder = home.root / "serving"
    body = el("main", _waiting(folder), _starts(folder), id="content")
    return document(TITLE, el("header", el("h1", TITLE)), body, around=around)


def _waiting(folder: Path) -> Markup:
    served = json.loads((folder / "served.json").read_text(encoding="utf-8")) if _is_served(folder) else []
    rows = [
        (
            el("a", one["pipeline"], href=f"/?pipeline={quote(one['pipeline'])}"),
            trigger["name"],
            trigger["kind"].replace("_", " "),
            _next(trigger, one.get("waits", {})),
        )
        for one in served
        for trigger in one["triggers"]
    ]
    nothing = el("p", "Nothing is served now. Start it: ", el("code", "drivetrain serve"))
    table = listing(("Pipeline", "Trigger", "Kind", "Next (UTC), or what it waits for"), rows) if rows else nothing
    return section("Served now", table, id="served")


def _is_served(folder: Path) -> bool:
    """Return True if the server that wrote the file lives; a killed one leaves it behind."""
    import fcntl

    if not (folder / "served.json").exists() or not (folder / "lock").exists():
        return False
    with (folder / "lock").open("ab") as file:
        try:
            hold(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _next(trigger: dict[str, Any], waits: dict[str, str]) -> Content:
    """When it starts next, or what it waits for in the server's words (`waits`, by the trigger's name)."""
    from drivetrain.spec.pipeline import Schedule
    from drivetrain.triggers.timing import clock

    if not trigger["enabled"]:
        return "off"
    if trigger["kind"] != "schedule":
        return waits.get(trigger["name"], "by event")
    times = islice(clock(Schedule.model_validate(trigger)).next_times(datetime.now(UTC)), NEXT_TIMES)
    said = [time.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for time in times]
    return [el("div", text) for text in said] or "never"


def _starts(folder: Path) -> Markup:
    said = list(_lines(folder / "started.jsonl"))
    forgotten = {(one["pipeline"], one["name"]) for one in said if "forgotten" in one}
    rows = [
        (
            one["name"],
            el("a", one["pipeline"], href=f"/?pipeline={quote(one['pipeline'])}"),
            str(one["started"])[:19].replace("T", " "),
            "not run: the server ended" if (one["pipeline"], one["name"]) in forgotten else "",
        )
        for one in reversed(said)
        if "started" in one
    ]
    nothing = el("p", "No schedule or event has started anything here.")
    return section("Started", listing(("Start", "Pipeline", "When (UTC)", ""), rows) if rows else nothing, id="starts")


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """The last starts; a line that is being written is left out."""
    lines = file.read_text(encoding="utf-8").splitlines()[-MAX_STARTS:] if file.exists() else []
    return (json.loads(line) for line in lines if line.endswith("}"))
