"""The page's section on a night's data: the verdict, each alarm in a sentence, the nights and the distributions."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import listing, section
from drivetrain.telling.charts.night_map import distributions, night_map
from drivetrain.telling.content.data_check import AlarmFacts, DataCheckFacts, sentence


def draw(checks: Sequence[DataCheckFacts]) -> list[Markup]:
    """A section a check."""
    return [
        section(
            "Data check" if len(checks) == 1 else f"Data check of {one.step}",
            _check(one),
            id=f"data-check-{place}",
        )
        for place, one in enumerate(checks, 1)
    ]


def _check(found: DataCheckFacts) -> list[Content]:
    title, colon, rest = sentence(found).partition(":")
    verdict = el("p", el("b", title + colon), rest, class_=f"verdict t-{found.tone}")
    if found.problem:
        return [verdict]
    judged = count(found.nights or 0, "accepted night")
    about = f"Night {found.night}, {found.rows or 0:,} rows, judged by {judged} before it." if found.night else None
    alarms = listing(("Column", "Verdict", "", "Since"), map(_alarm, found.alarms), kind="data")
    return [
        verdict,
        el("ul", [el("li", line) for line in found.why[1:]], class_="why") if found.why[1:] else None,
        el("p", about),
        el("div", alarms, class_="below") if found.alarms else None,
        el("div", night_map("Nights by column", found.days, found.columns), class_="below") if found.columns else None,
        el("div", [distributions(each) for each in found.distributions], class_="charts below")
        if found.distributions
        else None,
        el("p", " ".join(found.method), class_="method") if found.method else None,
    ]


def _alarm(one: AlarmFacts) -> tuple[Content, ...]:
    verdict = el("b", one.verdict) if one.verdict == "failed" else one.verdict
    return el("code", one.column), verdict, one.sentence, one.since
