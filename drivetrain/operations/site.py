"""The list of runs, the models and every run's page as files, for a web server or an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.operations.concluding import enter_missing
from drivetrain.run_store.reader import Ledger
from drivetrain.telling import Around
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.content.index import index
from drivetrain.telling.page import render
from drivetrain.telling.page.card_page import card_page

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion
    from drivetrain.run_store.home import Home

PER_PAGE = 200
_MARK = ".drivetrain-site"
_LINKS = (("Runs", "index.html"), ("Models", "models.html"))


def write_site(home: Home, groups: Mapping[str, Sequence[ModelVersion]], folder: Path) -> int:
    """Write all pages into a folder; the pages of runs that ended before the last time stay as they are.

    Args:
        groups: the versions of each model, the newest first.

    Returns:
        How many pages of runs were written anew.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    from drivetrain.telling.page.index_page import Asked, index_page
    from drivetrain.telling.page.registry_page import MAX_VERSIONS, registry_page

    if folder.exists() and not (folder.is_dir() and ((folder / _MARK).exists() or not any(folder.iterdir()))):
        raise UserError(f"{folder} holds something else. Give an empty folder, a new one, or one of an earlier site.")
    enter_missing(home)
    written = 0
    try:
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        (folder / _MARK).touch()
        with Ledger(home) as ledger:
            there = {row[0] for row in ledger.rows("SELECT id FROM executions")}
            for row in ledger.selected(""):
                file = folder / "runs" / f"{row.id}.html"
                if row.ended is None or not file.exists() or file.stat().st_mtime <= row.ended:
                    links = tuple((text, f"../{address}") for text, address in _LINKS)
                    file.write_text(render(run_facts(ledger, row.id), around=Around(links=links)), encoding="utf-8")
                    written += 1
            number, more = 1, True
            while more:
                found = index(ledger, limit=PER_PAGE, offset=(number - 1) * PER_PAGE)
                asked = Asked(page=number, per_page=PER_PAGE)
                text = index_page(found, asked, Around(links=_LINKS, here=_LINKS[0][1]), _run_file, pages=_list_file)
                (folder / _list_file(number)).write_text(text, encoding="utf-8")
                more, number = number * PER_PAGE < found.total, number + 1
        models = registry_page(groups, Around(links=_LINKS, here=_LINKS[1][1]), _run_file, _card_file, decides=False)
        (folder / _LINKS[1][1]).write_text(models, encoding="utf-8")
        (folder / "models").mkdir(exist_ok=True)
        links = Around(links=tuple((text, f"../{address}") for text, address in _LINKS), here=f"../{_LINKS[1][1]}")
        for version in (one for versions in groups.values() for one in versions[:MAX_VERSIONS]):
            run = version.lineage.get("execution", "").rpartition("/")[2]
            text = card_page(version, links, f"../{_run_file(run)}" if run in there else None)
            (folder / _card_file(version.group, version.version)).write_text(text, encoding="utf-8")
        # Runs that were removed, and pages of a list that was longer.
        stale = [file for file in (folder / "runs").glob("*.html") if file.stem not in there]
        stale += [file for file in folder.glob("runs-*.html") if int(file.stem.rpartition("-")[2]) >= number]
        for file in stale:
            file.unlink()
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror} ({error.filename}).") from None
    return written


def _run_file(id: str) -> str:
    return f"runs/{id}.html"


def _card_file(group: str, version: int) -> str:
    return f"models/{group}-{version}.html"


def _list_file(number: int) -> str:
    return "index.html" if number == 1 else f"runs-{number}.html"
