"""Tonight's data with what the registry keeps of its group: the accepted nights, open alarms, and the profile of the
approved version's training set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from drivetrain.base.errors import InputError, warn
from drivetrain.data.arrow import numpy
from drivetrain.data.history import History
from drivetrain.data.profile import Profile
from drivetrain.decision.data_alarms import Alarm, without
from drivetrain.decision.data_check import FAILED, NAMES, Before, Checked, check
from drivetrain.decision.served_findings import Finding, kept_findings
from drivetrain.registry.evidence import DATA, change_evidence, place_of, read_evidence

if TYPE_CHECKING:
    from drivetrain.data.profile import Night
    from drivetrain.decision.data_bounds import Settings
    from drivetrain.decision.data_rules import NightRules
    from drivetrain.registry.registry import ModelVersion, Registry

_EPOCH = date(1970, 1, 1)


def day_of(written: str, name: str) -> date:
    """The day that a parameter gives, as 2026-11-30; today in UTC where it is empty.

    Raises:
        InputError: it is no day.
    """
    if not written:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(written[:10])
    except ValueError:
        raise InputError(f"{name} is {written!r}. Give a day, as 2026-11-30.") from None


def judged(
    registry: Registry,
    group: str,
    profile: Profile,
    training_set: Profile,
    content_hash: str,
    day: date,
    rules: NightRules,
    settings: Settings,
    *,
    dry: bool = False,
) -> Checked:
    """Judge a night, and keep it with the registry: among the accepted nights unless it fails.

    Args:
        profile: of tonight's rows.
        training_set: of all rows of the train set, also of earlier nights: the baseline of a version trained on it.
        content_hash: of its train set.
        dry: nothing fails, and no alarm is kept.

    Raises:
        InputError: what is kept is damaged, or cannot be read or written; a rule names no column.
    """
    champion = registry.champion(group)
    night = profile.night(day, content_hash)
    times = [name for name, kind in night.kinds.items() if kind == "time"]
    if unknown := sorted(rules.fresh.keys() - {*times}):
        there = f"There are: {', '.join(times)}." if times else "There is none."
        raise InputError(f"rules: fresh: {unknown[0]!r} is no column of dates or time stamps. {there}")
    today = (day - _EPOCH).days
    newest = {name: today - float(profile.arrays["newest"][profile.places[name]]) for name in rules.fresh}
    baseline = None
    if champion is not None and (known := training_set_of(registry, group, champion)):
        baseline = champion.version, profile, known
    place = place_of(registry, group, champion, DATA)
    if place is None:
        warn("this registry has no place for the nights of the data yet, so tonight is compared with no other")
        return check(night, _before(History(), night), rules, settings, newest=newest, baseline=baseline)
    _keep_profile(registry, group, champion, content_hash, training_set)
    made: list[Checked] = []

    def change(kept: bytes) -> bytes:
        history = History.from_bytes(kept, place)
        alarms = [Alarm.from_json(each) for each in history.alarms]
        before = _before(history, night)
        accepted = [] if champion is None else _accepted(history, champion)
        checked = check(
            *(night, before, rules, settings),
            alarms=alarms,
            newest=newest,
            baseline=baseline,
            answered=accepted,
        )
        made.append(checked)
        if before.same_as is not None or (history.days and day < history.days[-1] and day not in history.days):
            return kept  # data of before, or a night that was left out
        if checked.verdict == FAILED and not dry:
            history = history.recorded("failed", day, content_hash=content_hash, why=checked.why[0])
        else:
            history = history.append(_without(night, {alarm.column for alarm in checked.alarms}))
        opened = alarms if dry or day < max(history.days, default=day) else checked.alarms
        return replace(history, alarms=tuple(alarm.as_json() for alarm in opened)).to_bytes()

    change_evidence(place, change)
    return made[-1]


def kept_history(registry: Registry, group: str) -> History:
    """The accepted nights of a group's data, and its open alarms; none where only findings in served data are open.

    Raises:
        InputError: there are none, or they cannot be read.
    """
    place = place_of(registry, group, registry.champion(group), DATA)
    return _history(group, read_evidence(place) if place else b"", place or "", open_findings(registry, group))


def open_findings(registry: Registry, group: str) -> list[Finding]:
    """The open findings in a group's served data.

    Raises:
        InputError: they are damaged.
    """
    return [each for each in kept_findings(registry, group).findings if each.is_open]


def accept(registry: Registry, group: str, columns: Sequence[str], *, who: str, why: str, day: date) -> History:
    """Answer alarms, and open findings of drift in served rows: what they told of is the new normal, so these columns'
    nights begin anew.

    Raises:
        InputError: no alarm is open on a column; nothing is kept of the group.
    """
    champion = registry.champion(group)
    place = place_of(registry, group, champion, DATA)
    if place is None:
        return _history(group, b"", "")
    version = None if champion is None else champion.version
    found = open_findings(registry, group)
    made: list[History] = []

    def change(kept: bytes) -> bytes:
        history = _history(group, kept, place, found)
        alarms = [Alarm.from_json(each) for each in history.alarms]
        served = {name for each in found for name in each.columns} - {alarm.column for alarm in alarms}
        left = without(alarms, [name for name in columns if name not in served])
        history = history.restarted(_placed(columns), day, who=who, why=why, version=version)
        made.append(replace(history, alarms=tuple(alarm.as_json() for alarm in left)))
        return made[-1].to_bytes()

    change_evidence(place, change)
    return made[-1]


def forget(registry: Registry, group: str, *, who: str, why: str, day: date) -> History:
    """Begin the history of a group's data anew, also where what is kept is damaged; the records stay if they can be
    read.

    Raises:
        InputError: nothing is kept of the group.
    """
    place = place_of(registry, group, registry.champion(group), DATA)
    if place is None or not read_evidence(place):
        return _history(group, b"", "")
    made: list[History] = []

    def change(kept: bytes) -> bytes:
        try:
            before = History.from_bytes(kept, place)
        except InputError as error:
            warn(f"{error} Its records are lost.")
            before = History()
        made.append(History(records=before.records).recorded("forgotten", day, who=who, why=why, nights=len(before)))
        return made[-1].to_bytes()

    change_evidence(place, change)
    return made[-1]


def _history(group: str, kept: bytes, place: str, found: Sequence[Finding] = ()) -> History:
    if not kept and not found:
        raise InputError(f"no night of the data of {group!r} is kept: check_data has not run for this group.")
    return History.from_bytes(kept, place)


def _without(night: Night, columns: Collection[str]) -> Night:
    """A night without the values of columns with an open alarm: what nobody has answered is no new normal."""
    np = numpy()
    kept = ~np.isin(night.columns, _placed(columns))
    return replace(night, values={name: np.where(kept, each, np.nan) for name, each in night.values.items()})


def _placed(columns: Iterable[str]) -> list[str]:
    """The columns as a history names them."""
    return ["" if name == "rows" else name for name in columns]


def _before(history: History, night: Night) -> Before:
    """The nights before this one, on its columns and those that are gone."""
    np = numpy()
    nights = slice(0, sum(day < night.day for day in history.days))
    known = dict(zip(history.content_hashes, history.days, strict=True)).get(night.content_hash, night.day)
    columns = tuple(dict.fromkeys((*night.columns, *history.columns)))
    values = history.aligned(columns)
    return Before(
        days=history.days[nights],
        rows=np.array(history.rows[nights], "float64"),
        values=np.stack([values[name][nights] for name in NAMES], axis=1),
        columns=columns,
        kinds=history.kinds,
        same_as=known if known < night.day else None,
    )


def _accepted(history: History, champion: ModelVersion) -> list[str]:
    """The columns whose difference from the training set of a version was accepted."""
    answers = (each for each in history.records if each["what"] == "accepted")
    return [name for each in answers if each.get("version") == champion.version for name in each["columns"]]


def _keep_profile(registry: Registry, group: str, champion: ModelVersion | None, hashed: str, profile: Profile) -> None:
    """Keep the profile of a train set by its hash: the baseline of the version that is trained on it."""
    if place := place_of(registry, group, champion, f"{DATA}/{hashed}"):
        content = profile.to_bytes()
        change_evidence(place, lambda _: content)


def answered_columns(registry: Registry, group: str, champion: ModelVersion) -> list[str]:
    """The columns whose difference from the training set of a version was accepted, by what is kept."""
    place = place_of(registry, group, champion, DATA)
    return _accepted(History.from_bytes(read_evidence(place) if place else b"", place or ""), champion)


def training_set_of(registry: Registry, group: str, champion: ModelVersion) -> Profile | None:
    """The profile of the rows that a version was trained on, if it is known."""
    hashed = champion.lineage.get("data")
    place = place_of(registry, group, champion, f"{DATA}/{hashed}") if hashed else None
    kept = read_evidence(place) if place else b""
    if not place or not kept:
        print(f"version {champion.version} was trained on data that no check_data has seen: no baseline", flush=True)
        return None
    return Profile.from_bytes(kept, place)
