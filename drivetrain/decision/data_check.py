"""The verdict on a night's data: by the accepted nights before it, and by the approved version's training set."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy
from drivetrain.data.profile import STATISTICS, TABLE
from drivetrain.decision import data_texts
from drivetrain.decision.data_alarms import Alarm, carried
from drivetrain.decision.data_baseline import Aligned, aligned
from drivetrain.decision.data_bounds import FEWEST, Nights, Settings, Verdicts, judge, replayed
from drivetrain.decision.data_drift import SHARE_MOVED, Effect, Gate, drift, gated
from drivetrain.decision.formatting import count

if TYPE_CHECKING:
    from drivetrain.data.profile import Night, Profile
    from drivetrain.decision.data_rules import NightRules

NAMES: tuple[str, ...] = tuple(STATISTICS)
KINDS: tuple[str, ...] = tuple(each.kind for each in STATISTICS.values())
PASSED, WARNED, FAILED, NOT_JUDGED = "passed", "warned", "failed", "not judged"
_OF_MEASURE = {"share_moved": "rows of {} that moved", "mean_moved": "mean of {}", "nulls_moved": "empty cells of {}"}
_NAMED = 3
_KINDS = {"number": "numbers", "time": "times", "text": "texts", "other": "values of another type"}
# Numbers that are judged again to say what the bounds would have done: about a quarter of a second.
_REPLAYED, _FEWEST_REPLAYED = 40_000, 7


@dataclass(frozen=True, kw_only=True, eq=False)
class Before:
    """The accepted nights before this one, the oldest first, on tonight's columns."""

    days: Sequence[date]
    rows: Any
    """float64 [nights]"""
    values: Any
    """float64 [nights, STATISTICS, columns], NaN where a night has no such value."""
    columns: tuple[str, ...]
    """Tonight's, and those that the last night had, too."""
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """By column what its values were when it was there last: number, time, text or other."""
    same_as: date | None = None
    """An earlier night with the very same data."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drifted:
    """The batch against the training set of a version."""

    version: int
    rows: int
    sides: Aligned
    effects: Mapping[str, Effect]
    warned: Mapping[str, str]
    """Column -> sentence, of those that pass a gate; `failed` ones are among them."""
    failed: frozenset[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked:
    """A night's verdict; sentences by column."""

    night: Night
    before: Before
    nights: Nights
    verdicts: Verdicts
    settings: Settings
    warned: Mapping[str, str]
    """Column -> sentence, of those that warn or fail tonight."""
    failed: frozenset[str]
    """The columns that fail the night, but for alarms that only warn since nobody answered."""
    alarms: tuple[Alarm, ...]
    drifted: Drifted | None
    why: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """PASSED, WARNED, FAILED or NOT_JUDGED."""
        if self.failed:
            return FAILED
        if self.warned:
            return WARNED
        return NOT_JUDGED if len(self.before.days) < FEWEST and self.drifted is None else PASSED


def check(
    night: Night,
    before: Before,
    rules: NightRules,
    settings: Settings,
    *,
    alarms: Sequence[Alarm] = (),
    newest: Mapping[str, float] | None = None,
    baseline: tuple[int, Profile, Profile] | None = None,
    answered: Sequence[str] = (),
) -> Checked:
    """Judge a night.

    Args:
        alarms: those open before.
        newest: by column of times, the days from its newest value to the night.
        baseline: the approved version's number, the night's profile, and that of the version's training set.
        answered: columns whose difference from that training set was accepted.

    Raises:
        InputError: a rule names a column that is not there, or a statistic that a column has not got.
    """
    np = numpy()
    place = {name: number for number, name in enumerate(night.columns)}
    tonight = np.full((len(NAMES), len(before.columns)), np.nan)
    inside = [number for number, name in enumerate(before.columns) if name in place]
    chosen = [place[before.columns[number]] for number in inside]
    for row, name in enumerate(NAMES):
        tonight[row, inside] = night.values[name][chosen]
    # A class that is known, and that no row has, has a share.
    shares = ~np.isnan(before.values[:, NAMES.index("class_share")]).all(axis=0)
    tonight[NAMES.index("class_share"), shares & ~np.isin(before.columns, night.columns)] = 0.0
    nights = Nights(
        values=np.concatenate([before.values, tonight[None]]),
        kinds=KINDS,
        rows=np.append(before.rows, float(night.rows)),
        weekdays=np.array([each.weekday() for each in (*before.days, night.day)], "int64"),
    )
    limits = rules.placed(NAMES, before.columns)
    verdicts = judge(nights, settings, limits)
    _refuse_idle_limits(rules, verdicts, before.columns)
    warned: dict[str, str] = {}
    failed: set[str] = set()
    for column, name in enumerate(before.columns):
        if sentence := _sentence(verdicts, column, name, night.day.weekday(), limits):
            warned[name or "rows"] = sentence
        if verdicts.columns_failed[column] or verdicts.gone[column]:
            failed.add(name or "rows")
    for name, kind in night.kinds.items():
        if before.kinds.get(name, kind) != kind:
            warned[name] = f"{name} holds {_KINDS[kind]} tonight, and held {_KINDS[before.kinds[name]]} before"
            failed.add(name)
    drifted = None
    if baseline is not None:
        version, batch, training_set = baseline
        drifted = drifted_from(version, aligned(batch, training_set), training_set.rows, rules.gates, answered)
    if drifted:
        warned = {**drifted.warned, **warned}
        failed |= drifted.failed
    judged = {before.columns[number] or "rows" for number in inside}
    opened, fails = carried(alarms, warned, failed, judged, night.day, rules.unanswered)
    if before.same_as is not None:
        warned["rows"] = f"no row is new: the data are those of {before.same_as}"
    for name, sentence in _stale(rules, newest or {}):
        warned[name] = sentence
        fails |= {name}
    return Checked(
        night=night,
        before=before,
        nights=nights,
        verdicts=verdicts,
        settings=settings,
        warned=warned,
        failed=fails,
        alarms=tuple(opened),
        drifted=drifted,
        why=tuple(_why(night, before, warned, fails, opened)),
    )


def replay(checked: Checked) -> str:
    """The bound on this pipeline's own last nights, in a sentence; empty where there are too many numbers a night."""
    if len(checked.before.days) <= FEWEST:
        return data_texts.replay(0, 0, 0)
    numbers = checked.nights.values[0].size
    last = min(60, _REPLAYED // max(numbers, 1))
    if last < _FEWEST_REPLAYED:
        return ""
    warned, failed = replayed(checked.nights.until(len(checked.before.days) - 1), checked.settings, last)
    return data_texts.replay(int(failed.any(axis=1).sum()), int(warned.any(axis=1).sum()), len(warned))


def distances(checked: Checked) -> Any:
    """How far each night, tonight as the last one, lay from what is expected tonight, in standard deviations: of each
    column the furthest statistic, float64 [nights, columns], NaN where none was judged."""
    np, verdicts = numpy(), checked.verdicts
    with np.errstate(all="ignore"):
        apart = (verdicts.scale.apply(checked.nights.values) - verdicts.fit.center) / verdicts.sd
    apart = np.where(np.isfinite(apart), apart, np.nan)
    largest = np.fmax.reduce(np.abs(apart), axis=1)
    return np.where(np.isnan(apart).all(axis=1), np.nan, largest)


def _sentence(
    verdicts: Verdicts, column: int, name: str, weekday: int, limits: Mapping[tuple[int, int], Any]
) -> str | None:
    """The furthest statistic of a column that failed, else of those that warned; None where none did."""
    np = numpy()
    if verdicts.gone[column]:
        return f"{name} is gone: no value tonight, and some the night before"
    warned = np.flatnonzero(verdicts.warned[:, column])
    if not len(warned):
        return None
    far = np.nan_to_num(np.abs(verdicts.distance[warned, column]), nan=0.0, posinf=np.inf)
    statistic = int(warned[np.lexsort((far, verdicts.failed[warned, column]))[-1]])
    words = STATISTICS[NAMES[statistic]].words
    named = words if name == TABLE else f"{words} of {name}"
    more = f", and {count(len(warned) - 1, 'more statistic')}" if len(warned) > 1 else ""
    limit = limits.get((statistic, column))
    return data_texts.sentence(verdicts, statistic, column, named, weekday, limit) + more


def _stale(rules: NightRules, newest: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """The columns of times that are too old, or lie in the future, with a sentence."""
    for name, days in newest.items():
        if days > rules.fresh[name]:
            yield name, f"{name} is stale: its newest value is {days:.1f} days old, and may be {rules.fresh[name]:g}"
        elif days < -1:
            yield name, f"{name} lies in the future: its newest value is {-days:.1f} days after the night began"


def _refuse_idle_limits(rules: NightRules, verdicts: Verdicts, columns: tuple[str, ...]) -> None:
    """
    Raises:
        InputError: a limit names a column that has no such statistic, so that it would guard nothing.
    """
    np = numpy()
    has = ~np.isnan(verdicts.value) | (verdicts.nights > 0)
    for name, statistic in rules.limits:
        if name in columns and not has[NAMES.index(statistic), columns.index(name)]:
            rows: list[int] = np.flatnonzero(has[:, columns.index(name)]).tolist()
            there = [NAMES[row] for row in rows]
            known = f"It has {', '.join(there)}." if there else "Nothing of a key is judged."
            more = f" Name a class: {name}=CLASS." if statistic == "class_share" else ""
            raise InputError(
                f"rules: nights: columns: {name}: {statistic}: the column has no such number. {known}{more}"
            )


def drifted_from(
    version: int,
    sides: Aligned,
    rows: int,
    gates: Mapping[str, Gate],
    answered: Collection[str] = (),
    against: Mapping[str, str] | None = None,
) -> Drifted:
    """Judge the differences of a batch from what a version was trained on.

    Args:
        rows: of the training set.
        answered: columns whose difference was accepted.
        against: by column what it is compared with, if not with "the training set".
    """
    effects = drift(sides.batch, sides.baseline)
    warned: dict[str, str] = {}
    failed: set[str] = set()
    for measure, (warns, fails) in gated(effects, gates).items():
        gate = gates[measure]
        for place, name in enumerate(sides.columns):
            if warns[place] and name not in answered:
                size = gate.fail if fails[place] else gate.warn
                words = _OF_MEASURE[measure].format(name)
                told = data_texts.drifted(effects[measure], place, measure, words, size)
                other = (against or {}).get(name, "the training set")
                warned.setdefault(name, f"{told}, against {other} of version {version}")
            if fails[place] and name not in answered:
                failed.add(name)
    for name in (each for each in sides.missing if each not in answered):
        what = "is empty, and was not in" if name in sides.empty else "is missing, or of another type, against"
        warned[name] = f"{name} {what} the training set of version {version}"
        failed.add(name)
    return Drifted(
        version=version,
        rows=rows,
        sides=sides,
        effects=effects,
        warned=warned,
        failed=frozenset(failed),
    )


def most_moved(drifted: Drifted) -> list[int]:
    """The places of the columns in the order of how many of their rows moved, the most first."""
    np = numpy()
    moved = np.nan_to_num(drifted.effects[SHARE_MOVED].estimate, nan=-1.0)
    return np.argsort(-moved, kind="stable").tolist()


def _why(
    night: Night, before: Before, warned: Mapping[str, str], failed: frozenset[str], alarms: Sequence[Alarm]
) -> list[str]:
    since = {alarm.column: alarm.since_when(night.day) for alarm in alarms if alarm.nights > 1}

    def told(name: str) -> str:
        return f"{warned[name]}, {since[name]}" if name in since else warned[name]

    if warned:
        shown = sorted(failed or warned)
        more = f" and {len(shown) - _NAMED:,} more" if len(shown) > _NAMED else ""
        title = f"{', '.join(shown[:_NAMED])}{more} {'failed' if failed else 'warned'}."
        return [title, *(f"{told(name)}." for name in shown)]
    if len(before.days) < FEWEST:
        return [f"too few nights: {len(before.days)} accepted before this one, and bounds begin with {FEWEST}."]
    columns = count(sum(name in night.kinds for name in before.columns), "column")
    new = [name for name in night.kinds if before.kinds and name not in before.kinds]
    more = f" New: {', '.join(new[:_NAMED])}." if new else ""
    return [f"all {columns} lie within the bounds of {len(before.days)} nights.{more}"]
