"""Read a training's health (health/health.json), or that of a script's own hook of smdebug, within
bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError, UserError
from drivetrain.base.formatting import size
from drivetrain.base.json_text import as_list, as_object, list_in, object_in
from drivetrain.telling.content.untrusted_json import drawable, finite, objects, read_members, text, whole

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import StepRun
    from drivetrain.run_store.reader import Ledger
    from drivetrain.training.health.smdebug.files import Trial

MEMBER, OPERATORS = "health/health.json", "profile/operators.json"
MAX_BYTES = 4 * 1024 * 1024
MAX_FINDINGS, MAX_RANKS, MAX_STRETCHES, MAX_WORDS = 100, 256, 200, 600
MAX_OPERATORS, MAX_NAME = 15, 70
# More than this takes longer than a page may.
MAX_ARCHIVE = MAX_TENSORS = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class HealthFinding:
    rule: str
    step: int
    action: str
    text: str
    advice: str
    times: int


@dataclass(frozen=True)
class SlowRank:
    """`seconds` is its shortest step before it meets the others, `to_median` beside the median of all ranks."""

    rank: int
    seconds: float
    to_median: float


@dataclass(frozen=True)
class Operator:
    """An operator of the profiled steps: its own time as a share of all, and its number of calls."""

    name: str
    milliseconds: float
    share: float
    calls: int


@dataclass(frozen=True, kw_only=True)
class HealthFacts:
    """The health of a training step. `busy` is the share in which a rank computes, [ranks][stretches]; `phases` the
    shares of each phase, [stretches]; `seconds` how long a stretch is; `stragglers` the ranks, the slowest first;
    `hosts` what each did, in words; `operators` those that took longest in `profiled` steps of rank 0; `source` who
    wrote it, where that is not our training. `healthy` is None where nobody has looked."""

    step: str
    healthy: bool | None
    rules: tuple[str, ...]
    verdict: str
    findings: tuple[HealthFinding, ...]
    seconds: tuple[float, ...] = ()
    busy: tuple[tuple[float, ...], ...] = ()
    stragglers: tuple[SlowRank, ...] = ()
    hosts: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = ()
    profiled: int = 0
    source: str = ""
    phases: Mapping[str, tuple[float, ...]]


def healths_of(ledger: Ledger, rows: Iterable[StepRun], made_by: Mapping[str, str]) -> tuple[HealthFacts, ...]:
    """The health of the trainings among the steps, those of other executions included (`made_by`)."""
    rows = [row for row in rows if row.type == "Training" and row.status in ("Succeeded", "Cached")]
    owners = {row.name: row if row.cache_of is None else ledger.step(made_by[row.name], row.name) for row in rows}
    found = [health_of(ledger.home, name, row.arguments, row.response) for name, row in owners.items()]
    return tuple(one for one in found if one is not None)


def health_of(home: Home, step: str, arguments: Mapping[str, Any], response: Mapping[str, Any]) -> HealthFacts | None:
    """Read the health that a training step has left; None if it is missing or cannot be read."""
    from drivetrain.run_store.objects import ObjectStore
    from drivetrain.targets.sagemaker.run.step_types.training import artifacts_uri

    job = response.get("TrainingJobName")
    if not isinstance(job, str) or "OutputDataConfig" not in arguments:
        return None
    try:
        place = ObjectStore(home.objects).path(artifacts_uri(arguments, job, what="output"))
        found = _contents(place, (MEMBER, OPERATORS))
        if MEMBER in found:
            health, profile = (
                json.loads(found.get(m, b"null"), parse_constant=lambda _: None) for m in (MEMBER, OPERATORS)
            )
            return facts_of(step, health, profile)
        return facts_of(step, told_by_trial(place, place.stat().st_mtime_ns)) if place.exists() else None
    except (OSError, ValueError, RecursionError, EOFError, UserError):
        return None  # deleted since, or not written by us: the page leaves it out


def _contents(place: Path, members: Sequence[str]) -> dict[str, bytes]:
    """Those of the members that are there, and not too large."""
    if place.is_dir():
        paths = {member: place / member for member in members}
        return {
            m: path.read_bytes() for m, path in paths.items() if path.is_file() and path.stat().st_size <= MAX_BYTES
        }
    return read_members(place, lambda name: name in members, last=max(members), most_bytes=MAX_BYTES)


def facts_of(step: str, found: Any, profile: Any = None) -> HealthFacts | None:
    """Facts from health.json or a trial, and from operators.json of a profile; None if it is not ours."""
    given = as_object(found)
    healthy, source = given.get("healthy"), text(given.get("source"), MAX_WORDS)
    if not isinstance(healthy, bool):
        if not source:
            return None
        healthy = None
    timeline = object_in(given, "timeline")
    seconds = tuple(_numbers(timeline.get("seconds")))
    length = len(seconds)
    busy = [tuple(_numbers(rank)) for rank in list_in(timeline, "busy")[:MAX_RANKS]]
    phases = {text(name): tuple(_numbers(shares)) for name, shares in object_in(timeline, "phases").items()}
    return HealthFacts(
        step=step,
        healthy=healthy,
        source=source,
        rules=tuple(text(name) for name in list(object_in(given, "rules"))[:MAX_FINDINGS]),
        verdict=text(given.get("verdict"), MAX_WORDS),
        findings=tuple(_findings(given.get("findings"))),
        seconds=seconds,
        hosts=tuple(text(one, MAX_WORDS) for one in list_in(given, "hosts")[:MAX_RANKS]),
        stragglers=tuple(_stragglers(given.get("stragglers"))),
        operators=tuple(_operators(as_object(profile).get("operators"))),
        profiled=whole(as_object(profile).get("steps")) or 0,
        busy=tuple(rank for rank in busy if len(rank) == length),
        phases={name: shares for name, shares in phases.items() if len(shares) == length and any(shares)},
    )


def _findings(given: object) -> Iterator[HealthFinding]:
    for one in objects(given, MAX_FINDINGS):
        yield HealthFinding(
            rule=text(one.get("rule")),
            step=whole(one.get("step")) or 0,
            action=text(one.get("action"), 10),
            text=text(one.get("text"), MAX_WORDS),
            advice=text(one.get("advice"), MAX_WORDS),
            times=whole(one.get("times")) or 1,
        )


def _stragglers(given: object) -> Iterator[SlowRank]:
    for one in objects(given, MAX_RANKS):
        numbers = [finite(one.get(name)) for name in ("seconds", "to_median")]
        rank = whole(one.get("rank"))
        if rank is not None and numbers[0] and numbers[1]:
            yield SlowRank(rank, numbers[0], numbers[1])


def _operators(given: object) -> Iterator[Operator]:
    for one in objects(given, MAX_OPERATORS):
        took, part, calls = finite(one.get("ms")), finite(one.get("share")), whole(one.get("calls"))
        if took is not None and part is not None and calls is not None:
            yield Operator(text(one.get("name"), MAX_NAME), took, part, calls)


def _numbers(given: object) -> Iterator[float]:
    for value in as_list(given)[:MAX_STRETCHES]:
        number = drawable(value) if finite(value) is not None else None
        yield max(number or 0.0, 0.0)


@lru_cache(maxsize=64)  # a page is drawn again and again; what a training has handed on does not change
def told_by_trial(place: Path, changed: int) -> dict[str, Any] | None:
    """As health.json, with `source` that says what was saved; None where there is no trial, or several.

    Args:
        place: the folder of a training's output, or its archive.
        changed: when that changed last [ns].

    Raises:
        OSError, ValueError: the archive is damaged.
    """
    if find_spec("numpy") is None:  # an extra that pages do without
        return None
    from drivetrain.training.health.packed import unpacked

    if place.is_dir():
        return _told_by_folder(place)
    if place.stat().st_size > MAX_ARCHIVE:
        return None
    import tarfile  # (only where there is one to be opened)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="drivetrain-health-") as temporary:
        try:
            folder = unpacked(place, Path(temporary))
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error
        return None if folder is None else _told_by_folder(folder)


def _told_by_folder(folder: Path) -> dict[str, Any] | None:
    from drivetrain.training.health.smdebug.files import read_trial, trials_below

    trials = trials_below(folder)
    if len(trials) != 1:
        return None
    try:
        return _of_trial(read_trial(trials[0]))
    except InputError as error:
        said = str(error).replace(f"{folder}/", "")
        return {"source": f"What smdebug saved cannot be read: {said.rstrip('.')}"}


def _of_trial(trial: Trial) -> dict[str, Any]:
    from drivetrain.training.health.smdebug.trial import in_words, summary_of

    source = f"Saved by {in_words(trial)}"
    held = sum(length for step in trial.steps for _, length in step.places.values())
    if held > MAX_TENSORS:
        return {"source": f"{source}; {size(held)} are more than a page reads: drivetrain health show tells of them"}
    return {**summary_of(trial, "{}").as_json(0.0), "source": source}
