"""Throw runs away, but never what a registered model, another run's results or a run at work needs.

A run's rows are removed in one transaction, its files after it. A list of the files is written first, so that a kill in
between leaves no file behind for good. Checkpoints and code do not belong to one run, and stay.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home, write_whole
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter

if TYPE_CHECKING:
    from drivetrain.run_store.model import Run

_PENDING = "removing.json"
_TABLES = ("steps", "attempts", "artifacts", "objects", "metrics", "events", "run_values")
_UNITS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}
_STORED = re.compile(r"s3://[^\"'\\\s]+")


@dataclass(frozen=True, kw_only=True)
class Removal:
    """A planned removal: the runs, the objects that they wrote (no other run has written them since), and bytes in
    all."""

    runs: tuple[Run, ...]
    kept: Mapping[str, str]
    """Run that was asked for -> why it stays, as a sentence."""
    objects: tuple[str, ...]
    bytes: int


def seconds_of(text: str) -> float:
    """`30d`, `12h` or `2w` in seconds.

    Raises:
        UserError: it has none of these forms.
    """
    match = re.fullmatch(r"(\d{1,6})([hdw])", text.strip().lower())
    if match is None:
        raise UserError(f"An age of {text!r} is not understood. Give hours, days or weeks: 12h, 30d, 2w.")
    return float(match[1]) * _UNITS[match[2]]


def to_prune(
    home: Home, *, keep: int, older_than_s: float = 0.0, pipeline: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """The runs beyond the newest `keep` of each pipeline that began longer ago; and those of them that stay for
    their name, each with the reason."""
    sql = """
        SELECT id, name FROM (SELECT id, name, started,
                                     row_number() OVER (PARTITION BY pipeline ORDER BY rowid DESC) AS place
                              FROM executions WHERE ?1 IS NULL OR pipeline = ?1)
        WHERE place > ?2 AND started <= ?3
    """
    with Ledger(home) as ledger:
        old = ledger.rows(sql, pipeline, keep, time.time() - older_than_s)
    named = {id: f"it is called {name}" for id, name in old if name is not None}
    return [id for id, _ in old if id not in named], named


def plan_removal(home: Home, executions: Iterable[str]) -> Removal:
    """Plan the removal of runs: what it frees, and the runs that stay.

    Args:
        executions: each by its id, its name, the beginning of its id, or `latest`.

    Raises:
        UserError: there is no such run.
    """
    with Ledger(home) as ledger:
        rows = {row.id: row for row in (ledger.execution(each) for each in executions)}
        kept = _kept(ledger, set(rows))
        going = {id: row for id, row in rows.items() if id not in kept}
        objects = _objects(ledger, set(going))
    size = sum(size for _, size in objects) + sum(_folder_bytes(home.run(id)) for id in going)
    return Removal(runs=tuple(going.values()), kept=kept, objects=tuple(uri for uri, _ in objects), bytes=size)


def remove(home: Home, removal: Removal) -> None:
    """Throw away what was planned.

    Raises:
        UserError: a run is needed by now.
    """
    finish_removal(home)
    ids = {row.id for row in removal.runs}
    if not ids:
        return
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        if needed := _kept(ledger, ids):
            id, why = next(iter(needed.items()))
            raise UserError(f"Run {id} is needed by now: {why}. Nothing was removed; look again.")
        objects = [uri for uri, _ in _objects(ledger, ids)]
        write_whole(home.root / _PENDING, json.dumps({"runs": sorted(ids), "objects": objects}))
        given = json.dumps(sorted(ids))
        for table in _TABLES:
            db.execute(f"DELETE FROM {table} WHERE execution IN (SELECT value FROM json_each(?))", (given,))
        db.execute("DELETE FROM executions WHERE id IN (SELECT value FROM json_each(?))", (given,))
    finish_removal(home)


def finish_removal(home: Home) -> None:
    """Remove the files of runs that are no longer in the ledger, which a killed process has left."""
    file = home.root / _PENDING
    try:
        pending = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    store = ObjectStore(home.objects)
    with Ledger(home) as ledger:
        there = {row[0] for row in ledger.rows("SELECT id FROM executions")}
        if not there & set(pending["runs"]):  # else the transaction was never committed
            written = {uri for uri in pending["objects"] if ledger.rows("SELECT 1 FROM objects WHERE uri = ?", uri)}
            for uri in pending["objects"]:
                if uri not in written:
                    store.remove(uri, below=uri[: uri.index("/", len("s3://"))])
            for id in pending["runs"]:
                if home.run(id).exists():
                    shutil.rmtree(home.run(id))
    file.unlink()


def _kept(ledger: Ledger, wanted: set[str]) -> dict[str, str]:
    """The runs among those to remove that are still needed, each with the reason."""
    home = ledger.home
    unended = ledger.rows("SELECT id, pipeline FROM executions WHERE status = 'Executing'")
    at_work = {pipeline: id for id, pipeline in unended if home.is_running(id)}
    kept: dict[str, str] = {}
    given = json.dumps(sorted(wanted))
    chosen = "(SELECT value FROM json_each(?))"
    for id, pipeline in ledger.rows(f"SELECT id, pipeline FROM executions WHERE id IN {chosen}", given):
        if home.is_running(id):
            kept[id] = "it goes on"
        elif pipeline in at_work:
            kept[id] = f"run {at_work[pipeline]} of the same pipeline goes on, and may take results from it"
    for id, why in _by_models(ledger, wanted):
        kept.setdefault(id, why)
    uses = ledger.rows(
        f"SELECT cache_of, execution, 'step ' || name || ' of' FROM steps WHERE cache_of IN {chosen} UNION ALL "
        "SELECT from_execution, execution, 'an input of step ' || step || ' of' FROM artifacts WHERE from_execution IN "
        f"{chosen} AND from_execution != execution",
        *(given, given),
    )
    changed = True
    while changed:
        changed = False
        for id, user, what in uses:
            if id not in kept and (user not in wanted or user in kept):
                kept[id] = f"{what} run {user} comes from it"
                changed = True
    return kept


def _by_models(ledger: Ledger, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Runs that registered a model, or wrote what a model's version names."""
    registry = LocalRegistry(ledger.home.ledger)
    versions = [version for group in registry.groups() for version in registry.versions(group.name)]
    arns = {version.arn for version in versions}
    for version in versions:
        why = f"{version.group} version {version.version} is its model"
        maker = version.lineage.get("execution", "").rpartition("/")[2]
        if maker in wanted:
            yield maker, why
        for uri in set(_STORED.findall(json.dumps(asdict(version.record), default=str))):
            writer, _ = ledger.writer_of(uri)
            if writer in wanted:
                yield str(writer), f"{version.group} version {version.version} needs what it wrote"
    sql = (
        "SELECT execution, response FROM steps WHERE execution IN (SELECT value FROM json_each(?)) AND "
        "status = 'Succeeded' AND (type = 'RegisterModel' OR arguments LIKE '%register_model:register_model%')"
    )
    for id, response in ledger.rows(sql, json.dumps(sorted(wanted))):
        if json.loads(response).get("ModelPackageArn") not in arns:
            yield id, "it registered a model in another registry"


def _objects(ledger: Ledger, going: set[str]) -> list[tuple[str, int]]:
    """URI and bytes of what these runs alone have written."""
    chosen = "(SELECT value FROM json_each(?1))"
    return [
        (uri, size)
        for uri, size in ledger.rows(
            f"SELECT uri, max(bytes) FROM objects o WHERE execution IN {chosen} AND NOT EXISTS "
            f"(SELECT 1 FROM objects p WHERE p.uri = o.uri AND p.execution NOT IN {chosen}) GROUP BY uri",
            json.dumps(sorted(going)),
        )
    ]


def _folder_bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) if folder.is_dir() else 0
