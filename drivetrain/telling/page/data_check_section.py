"""The page's section on a night's data or on served rows: the verdict, each alarm in a sentence, the nights, the metric
of each look, and the distributions."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import listing, section
from drivetrain.telling.charts.charts import Series, line_chart
from drivetrain.telling.charts.night_map import distributions, night_map
from drivetrain.telling.content.data_check import AlarmFacts, DataCheckFacts, LookFacts, sentence


def draw(checks: Sequence[DataCheckFacts]) -> list[Markup]:
    """A section a check."""
    return [
        section(
            _title(one) if len(checks) == 1 else f"{_title(one)} of {one.step}",
            _check(one),
            id=f"data-check-{place}",
        )
        for place, one in enumerate(checks, 1)
    ]


def _title(found: DataCheckFacts) -> str:
    return "Served rows" if found.is_served else "Data check"


def _check(found: DataCheckFacts) -> list[Content]:
    title, colon, rest = sentence(found).partition(":")
    verdict = el("p", el("b", title + colon), rest, class_=f"verdict t-{found.tone}")
    if found.problem:
        return [verdict]
    judged = count(found.nights or 0, "accepted night")
    before = f", judged by {judged} before it" if not found.is_served else ""
    about = f"{'' if found.is_served else 'Night '}{found.night}, {found.rows or 0:,} rows{before}."
    alarms = listing(("Column", "Verdict", "", "Since"), map(_alarm, found.alarms), kind="data")
    return [
        verdict,
        el("ul", [el("li", line) for line in found.why[1:]], class_="why") if found.why[1:] else None,
        el("p", about) if found.night else None,
        el("div", _looks(found.looks), class_="charts below") if len(found.looks) > 1 else None,
        el("div", alarms, class_="below") if found.alarms else None,
        el("div", night_map("Nights by column", found.days, found.columns), class_="below") if found.columns else None,
        el("div", [distributions(each) for each in found.distributions], class_="charts below")
        if found.distributions
        else None,
        el("p", " ".join(found.method), class_="method") if found.method else None,
    ]


def _looks(looks: Sequence[LookFacts]) -> Markup:
    """The metric of each look with the ends of its interval, beside what was promised."""
    metric = looks[-1].metric
    looks = [look for look in looks if look.metric == metric]
    lines = {
        metric: [look.value for look in looks],
        "promised": [look.promised for look in looks],
        "at least": [look.low for look in looks],
        "at most": [look.high for look in looks],
    }
    series = [
        Series(name, tuple((float(place), value) for place, value in enumerate(values, 1) if value is not None))
        for name, values in lines.items()
    ]
    return line_chart(f"{metric} by look", series, x_label="look")


def _alarm(one: AlarmFacts) -> tuple[Content, ...]:
    verdict = el("b", one.verdict) if one.verdict == "failed" else one.verdict
    return el("code", one.column), verdict, one.sentence, one.since
