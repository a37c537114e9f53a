"""Hold everything that a home stores against what the ledger says of it, byte by byte.

Runs trust a file whose size and times are those that the ledger has. Bits that rot on a disk, or a restored backup,
leave these as they are; here every file is read. What is found damaged is trusted no more from then on: the next run
reads it, sees that it is another one, and makes it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import ObjectRow
from drivetrain.run_store.objects import ObjectStore, sha256_of, walk
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.schema import unreadable_errors
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.steps import NOT_FRESH

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion

# The token of a fresh start, among what a key of the cache is made of.
_FRESH = re.compile(r'"(?:DRIVETRAIN_FRESH|sagemaker_drivetrain_fresh)": ?"([^"]*)"')

Progress = Callable[[int, int], None]
"""Told before each file: bytes read so far, bytes in all."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One file, model or checkpoint that is not what was written: whom it touches, and what to do."""

    what: str
    path: str
    problem: str
    runs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    advice: str
    superseded: bool = False
    """Another run made it, too, elsewhere: nothing needs it any more."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The result of verifying: `files` and `bytes` with a hash in the ledger, and what is damaged. `unknown` files
    below s3/ have no hash: checkpoints, and files that the user put there."""

    files: int
    bytes: int
    unknown: int
    damages: tuple[Damage, ...]


def verify(home: Home, progress: Progress = lambda done, total: None) -> Verified:
    """Read all objects that the ledger knows, and the registered models that lie elsewhere.

    Raises:
        UserError: the ledger is damaged.
    """
    with Ledger(home) as ledger:
        _check_ledger(home, ledger)
        written = _objects(ledger)
        versions = _versions(home)
        store, done, total = ObjectStore(home.objects), 0, sum(each[-1].bytes for each in written.values())
        damages: list[Damage] = []
        rotten: list[str] = []
        for uri, entries in written.items():
            progress(done, total)
            done += entries[-1].bytes
            path = store.path(uri)
            problem = _problem(path, entries)
            if problem is not None:
                rotten.append(uri)
                damages.append(_damage(uri, path, problem, entries[-1], ledger, versions))
        damages += _models(store, written, versions)
    if rotten:
        _distrust(home, rotten)
    known = {store.path(uri) for uri in written}
    unknown = sum(path not in known for _, path in walk(home.objects)) if home.objects.is_dir() else 0
    return Verified(files=len(written), bytes=total, unknown=unknown, damages=tuple(damages))


def checkpoint_places(home: Home) -> list[tuple[str, Path]]:
    """The places where trainings of a home have kept checkpoints (URI and folder), if anything is there."""
    store, found = ObjectStore(home.objects), dict[str, Path]()
    with Ledger(home) as ledger:
        for (execution,) in ledger.rows("SELECT DISTINCT execution FROM steps WHERE type = 'Training'"):
            for row in ledger.steps(execution):
                uri = row.checkpoints_uri
                if uri is not None and store.path(uri).is_dir():
                    found[uri.rstrip("/")] = store.path(uri)
    return sorted(found.items())


def _check_ledger(home: Home, ledger: Ledger) -> None:
    with unreadable_errors(home.ledger):
        found = ledger.rows("PRAGMA integrity_check")
    if found != [("ok",)]:
        raise UserError(
            f"{home.ledger} is damaged: {found[0][0]}. Restore it from a backup, or move it aside: then runs and "
            "models begin anew, and what lies in s3/ stays."
        )


def _objects(ledger: Ledger) -> dict[str, list[ObjectRow]]:
    """URI -> who wrote it, the last one last; of steps that are done, since others may still move their outputs. An
    upload has no run."""
    sql = """
        SELECT uri, sha256, bytes, o.execution, o.step FROM objects o
        LEFT JOIN steps s ON s.execution = o.execution AND s.name = o.step
        WHERE o.execution = '' OR s.status = 'Succeeded' ORDER BY uri, o.rowid
    """
    found: dict[str, list[ObjectRow]] = {}
    for row in ledger.rows(sql):
        found.setdefault(row[0], []).append(ObjectRow(*row))
    return found


def _problem(path: Path, entries: list[ObjectRow]) -> str | None:
    try:
        # A run that is older may have written it last: its entry is renewed when the cache looks at it.
        if sha256_of(path) in {entry.sha256 for entry in entries}:
            return None
        size = path.stat().st_size
    except FileNotFoundError:
        return "it is gone"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    wanted = entries[-1].bytes
    return "its bytes have changed" if size == wanted else f"it has {size:,} bytes and not {wanted:,}"


def _damage(
    uri: str, path: Path, problem: str, last: ObjectRow, ledger: Ledger, versions: list[ModelVersion]
) -> Damage:
    touched = tuple(_named(version) for version in versions if _is_of(uri, version.artifact))
    reading = "SELECT DISTINCT execution FROM artifacts WHERE flow = 'input' AND substr(?, 1, length(uri)) = uri"
    runs = dict.fromkeys(row[0] for row in ledger.rows(reading, uri))
    if last.execution:
        cached = ledger.rows("SELECT execution FROM steps WHERE cache_of = ? AND name = ?", last.execution, last.step)
        runs = {last.execution: None, **dict.fromkeys(row[0] for row in cached), **runs}
        advice = f"The next run of the pipeline makes it again (step {last.step!r}); or restore it from a backup."
    else:
        advice = "The next run of the pipeline uploads it again."
    later = None if touched or not last.execution else _made_again(ledger, last.execution, last.step)
    if later is not None:
        advice = f"Nothing needs it any more: run {later} made it, too (step {last.step!r})."
    if touched:
        advice = _advice(", ".join(touched))
    return Damage(
        what=uri,
        path=str(path),
        problem=problem,
        runs=tuple(runs),
        versions=touched,
        advice=advice,
        superseded=later is not None,
    )


def _made_again(ledger: Ledger, execution: str, step: str) -> str | None:
    """The run that has really run a step again since, from the same: a fresh start counts. What a fresh start made is
    offered to no other run, so one before it counts, too."""
    sql = """
        WITH done AS (
          SELECT execution, pipeline, name, cache_fields,
            (SELECT max(rowid) FROM attempts WHERE execution = steps.execution AND step = steps.name) AS attempt
          FROM steps WHERE status = 'Succeeded' AND name = ?
        )
        SELECT other.execution, ran.cache_fields, other.attempt > ran.attempt
        FROM done AS ran JOIN done AS other ON other.pipeline = ran.pipeline AND other.execution != ran.execution
        WHERE ran.execution = ? ORDER BY other.attempt DESC
    """
    for other, fields, is_later in ledger.rows(sql, step, execution):
        if (is_later or _is_fresh(fields)) and _from_the_same(ledger, step, execution, other):
            return other
    return None


def _from_the_same(ledger: Ledger, step: str, run: str, other: str) -> bool:
    """True where a step had equal key attributes in two runs, and inputs that other steps made from the same."""
    if run == other:
        return True
    (fields, origins), (other_fields, other_origins) = (_made_from(ledger, step, each) for each in (run, other))
    return (
        fields == other_fields
        and origins.keys() == other_origins.keys()
        and all(_from_the_same(ledger, name, origins[name], other_origins[name]) for name in origins)
    )


def _made_from(ledger: Ledger, step: str, run: str) -> tuple[str, dict[str, str]]:
    """A step's key attributes without the token of a fresh start and without the ids of runs, which are in the places
    of inputs; and the steps that made these, with their runs."""
    reading = """
        SELECT from_step, from_execution FROM artifacts
        WHERE execution = ? AND step = ? AND flow = 'input' AND from_step IS NOT NULL
    """
    origins: dict[str, str] = dict(ledger.rows(reading, run, step))
    sql = "SELECT coalesce(cache_fields, arguments) FROM steps WHERE execution = ? AND name = ?"
    ((fields,),) = ledger.rows(sql, run, step)
    for id in {run, *origins.values()}:
        fields = fields.replace(id, "")
    return _FRESH.sub("", fields), origins


def _is_fresh(fields: str | None) -> bool:
    return any(token != NOT_FRESH for token in _FRESH.findall(fields or ""))


def _advice(versions: str) -> str:
    return (
        f"Restore it from a backup, or train again: {versions} cannot answer with it. Where a run registers the same "
        "content again, the version names the new files."
    )


def _versions(home: Home) -> list[ModelVersion]:
    registry = LocalRegistry(home.ledger)
    return [version for group in registry.groups() for version in registry.versions(group.name)]


def _models(
    store: ObjectStore, written: Mapping[str, list[ObjectRow]], versions: list[ModelVersion]
) -> Iterator[Damage]:
    """Registered models with files that no step of this home wrote."""
    from drivetrain.registry.intact import damage, place_of

    for version in versions:
        artifact = version.artifact
        if not version.content_hash or any(_is_of(uri, artifact) for uri in written):
            continue
        problem = damage(version, store.root)
        if problem is not None:
            path, named = place_of(artifact, store.root), _named(version)
            yield Damage(what=artifact, path=str(path), problem=problem, versions=(named,), advice=_advice(named))


def _is_of(uri: str, artifact: str) -> bool:
    return uri == artifact or (bool(artifact) and uri.startswith(artifact.rstrip("/") + "/"))


def _named(version: ModelVersion) -> str:
    return f"{version.group} version {version.version}"


def _distrust(home: Home, uris: list[str]) -> None:
    """Forget the times that vouch for objects: from now on each object is read before it is used."""
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        db.executemany("UPDATE objects SET ctime_ns = NULL WHERE uri = ?", [(uri,) for uri in uris])
