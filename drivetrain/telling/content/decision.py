"""Read the decision of a comparison from decision.json: whether a candidate is registered, and why.

As with evaluations, what is not understood is left out, and a file that cannot be read is said to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.base.formatting import count, number, signed
from drivetrain.base.json_text import list_in, object_in
from drivetrain.telling.content.evaluation import Measure, measures
from drivetrain.telling.content.untrusted_json import UnreadableError, finite, objects, read_object, text, whole

DECISION_FILE = "decision.json"
MAX_RULES = 500
MAX_DIFFERENCES = 5_000
MAX_REASONS = 50

# Verdict -> what it comes to: the style of a sentence about it.
_TONES = {"register": "good", "keep champion": "warn", "below floors": "bad", "already registered": "reused"}


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A value that a metric must reach, on the whole test set or on a slice (`site=north`): at least `least`, or at
    most if less of it is better."""

    metric: str
    slice: str
    least: float | None
    value: float | None
    met: bool
    higher_is_better: bool = True


@dataclass(frozen=True, kw_only=True)
class Regression:
    """How much a metric differs from the champion's, and how much worse it may be."""

    metric: str
    slice: str
    difference: float | None
    budget: float | None
    within: bool
    at_most: float | None = None
    """A greater loss is ruled out."""
    could_rule_out: float | None = None
    """The loss that so many samples can rule out."""
    untested: bool = False
    """Nothing was computed: too few samples, say."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far a metric of the candidate lies from the champion's: `measure` has value, bound and interval."""

    metric: str
    slice: str
    measure: Measure


@dataclass(frozen=True, kw_only=True)
class DecisionFacts:
    """One decision. `champion_version` is empty where the group has no champion yet."""

    step: str
    problem: str = ""
    verdict: str = ""
    why: tuple[str, ...] = ()
    group: str = ""
    registry: str = ""
    metric: str = ""
    higher_is_better: bool | None = None
    candidate: Mapping[str, Measure] = field(default_factory=dict[str, Measure])
    candidate_hash: str = ""
    champion: Mapping[str, Measure] = field(default_factory=dict[str, Measure])
    champion_version: str = ""
    champion_hash: str = ""
    difference: Measure | None = None
    differences: tuple[Difference, ...] = ()
    """The differences of every metric, on all samples and on slices, if the record has them."""
    confidence: float | None = None
    method: str = ""
    unless: str = ""
    floors: tuple[Floor, ...] = ()
    regressions: tuple[Regression, ...] = ()
    proven: bool = False
    """Budgets must be proven: a greater loss is ruled out."""
    anchor_version: str = ""
    """The best approved version, where the candidate must not be worse than that and it is not the champion."""
    anchor_difference: Measure | None = None
    rows: int | None = None
    data_hash: str = ""
    already_registered: str = ""

    @property
    def tone(self) -> str:
        """`good`, `warn`, `bad` or `reused`; `idle` for a verdict that we do not know."""
        return _TONES.get(self.verdict, "idle")

    @property
    def title(self) -> str:
        """The verdict in two or three words."""
        known = {"register": "Register", "keep champion": "Keep the champion", "below floors": "Do not register"}
        return known.get(self.verdict) or self.verdict[:1].upper() + self.verdict[1:] or "No verdict"


def read_decision(step: str, folder: Path) -> DecisionFacts | None:
    """Read what a comparison wrote into `folder`; None if there is no decision of ours."""
    try:
        found = read_object(folder / DECISION_FILE)
    except UnreadableError as error:
        return DecisionFacts(step=step, problem=f"{DECISION_FILE} {error}")
    if found is None or whole(found.get("format")) is None or not isinstance(found.get("verdict"), str):
        return None
    return decision(step, found)


def decision(step: str, found: Mapping[str, Any]) -> DecisionFacts:
    """The facts in the content of a decision.json, which registries keep with a version, too."""
    candidate, champion = object_in(found, "candidate"), object_in(found, "champion")
    difference, data = object_in(found, "difference"), object_in(found, "data")
    better, anchor = found.get("higher_is_better"), object_in(found, "anchor")
    return DecisionFacts(
        step=step,
        verdict=text(found.get("verdict")),
        why=tuple(said for said in (text(line, 500) for line in list_in(found, "why")[:MAX_REASONS]) if said),
        group=text(found.get("group")),
        registry=text(found.get("registry")),
        metric=text(found.get("metric")),
        higher_is_better=better if isinstance(better, bool) else None,
        candidate=measures(object_in(candidate, "metrics")),
        candidate_hash=text(candidate.get("content_hash")),
        champion=measures(object_in(champion, "metrics")),
        champion_version=text(champion.get("version")) or ("?" if champion else ""),
        champion_hash=text(champion.get("content_hash")),
        difference=measures({"difference": difference}).get("difference"),
        differences=tuple(_differences(found.get("differences"))),
        confidence=finite(difference.get("confidence")),
        method=text(difference.get("method")),
        unless=text(difference.get("unless")),
        floors=tuple(_floors(found.get("floors"))),
        regressions=tuple(_regressions(found.get("regressions"))),
        proven=object_in(found, "rule").get("budget_rule") == "proven",
        anchor_version=text(anchor.get("version")),
        anchor_difference=measures({"difference": object_in(anchor, "difference")}).get("difference"),
        rows=whole(data.get("rows")),
        data_hash=text(data.get("content_hash")),
        already_registered=text(found.get("already_registered")),
    )


def _differences(found: object) -> Iterator[Difference]:
    for entry in objects(found, MAX_DIFFERENCES):
        measure = measures({"difference": entry}).get("difference")
        if measure is not None:
            yield Difference(metric=text(entry.get("metric")), slice=text(entry.get("slice")), measure=measure)


def _floors(found: object) -> Iterator[Floor]:
    for entry in objects(found, MAX_RULES):
        yield Floor(
            metric=text(entry.get("metric")),
            slice=text(entry.get("slice")),
            least=finite(entry.get("least")),
            value=finite(entry.get("value")),
            met=entry.get("met") is True,
            higher_is_better=entry.get("higher_is_better") is not False,
        )


def _regressions(found: object) -> Iterator[Regression]:
    for entry in objects(found, MAX_RULES):
        yield Regression(
            metric=text(entry.get("metric")),
            slice=text(entry.get("slice")),
            difference=finite(entry.get("difference")),
            budget=finite(entry.get("budget")),
            within=entry.get("within") is True,
            at_most=finite(entry.get("at_most")),
            could_rule_out=finite(entry.get("could_rule_out")),
            untested=bool(entry.get("untested")),
        )


def sentence(found: DecisionFacts) -> str:
    """The verdict as one sentence: `Register: accuracy 0.9806 against 0.9722 of version 2, +0.0083 (95 % interval
    +0.0028 to +0.0139).`"""
    if found.problem:
        return f"The decision of {found.step} cannot be shown: its {found.problem}."
    if found.verdict == "already registered":
        where = f"version {found.already_registered}" if found.already_registered else "a version"
        return f"Already registered: the same content is {where}{f' of {found.group}' if found.group else ''}."
    broken = [floor for floor in found.floors if not floor.met]
    if found.verdict == "below floors" and broken:
        more = f" (and {count(len(broken) - 1, 'more floor')} not met)" if len(broken) > 1 else ""
        return f"Do not register: {floor_words(broken[0])}{more}."
    if found.verdict == "register" and not found.champion_version:
        floors = ", and every floor is met" if found.floors else ""
        return f"Register: {found.group or 'the group'} has no champion yet{floors}."
    versus = _versus(found)
    outside = [one for one in found.regressions if not one.within]
    if found.verdict == "keep champion" and found.anchor_version and found.anchor_difference is not None:
        versus += f"; {signed(found.anchor_difference.value)} to version {found.anchor_version}, the best approved one"
    if found.verdict == "keep champion" and outside:
        one = outside[0]
        said = "is not shown to keep its budget" if found.proven else "is worse by more than its budget"
        versus += f"{'; ' if versus else ''}{name_of(one.metric, one.slice)} {said}"
    return f"{found.title}: {versus}." if versus else f"{found.title}."


def _versus(found: DecisionFacts) -> str:
    """`accuracy 0.9806 against 0.9722 of version 2, +0.0083 (...)`; empty where there is nothing to compare with."""
    ours, theirs = found.candidate.get(found.metric), found.champion.get(found.metric)
    told: list[str] = []
    if ours is not None and theirs is not None:
        told.append(f"{found.metric} {number(ours.value)} against {number(theirs.value)}{_of_version(found)}")
    if found.difference is not None:
        told.append(difference_words(found))
    return ", ".join(told)


def _of_version(found: DecisionFacts) -> str:
    return f" of version {found.champion_version}" if found.champion_version not in ("", "?") else " of the champion"


def difference_words(found: DecisionFacts) -> str:
    """`+0.0083 (95 % interval +0.0028 to +0.0139)`; empty without a difference."""
    if found.difference is None:
        return ""
    said = signed(found.difference.value)
    if (interval := found.difference.interval) is not None:
        share = f"{found.confidence * 100:.4g} % " if found.confidence is not None else ""
        said += f" ({share}interval {signed(interval[0])} to {signed(interval[1])})"
    return said


def floor_words(floor: Floor) -> str:
    """`accuracy of site=north is 0.9100, and must be at least 0.9500`."""
    name = name_of(floor.metric, floor.slice)
    limit = "" if floor.least is None else f", and must be {floor_limit(floor)}"
    return f"{name} is {'not defined' if floor.value is None else number(floor.value)}{limit}"


def floor_limit(floor: Floor) -> str:
    """`at least 0.9500`; a dash if unknown."""
    bound = "at least" if floor.higher_is_better else "at most"
    return "–" if floor.least is None else f"{bound} {number(floor.least)}"


def name_of(metric: str, of_slice: str) -> str:
    """A metric, on a slice where there is one: `accuracy of site=north`."""
    return f"{metric} of {of_slice}" if of_slice else metric
