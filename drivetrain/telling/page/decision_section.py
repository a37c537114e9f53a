"""The page's section on a decision: the verdict, the candidate beside the champion, floors and regressions."""

from __future__ import annotations

from collections.abc import Sequence

from drivetrain.base.formatting import count, number, number_or_dash, signed
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import Cell, Row, scrolled, section, table
from drivetrain.telling.charts.dot_plot import Row as Dot
from drivetrain.telling.charts.dot_plot import dot_plot
from drivetrain.telling.content.decision import DecisionFacts, floor_limit, name_of, sentence
from drivetrain.telling.content.evaluation import Measure, value_words
from drivetrain.telling.content.findings import words
from drivetrain.telling.content.untrusted_json import drawable

MAX_ROWS = 10
MAX_FOLDED = 200
MAX_DOTS = 12
MAX_RULE_ROWS = 100


def draw(decisions: Sequence[DecisionFacts]) -> list[Markup]:
    """A section a decision; what is wrong with a file is said by its verdict alone."""
    shown = [one for one in decisions if not one.problem]
    return [
        section(
            "Decision" if len(shown) == 1 else f"Decision of {one.step}",
            decision_section(one),
            id=f"decision-{place}",
        )
        for place, one in enumerate(shown, 1)
    ]


def verdict(found: DecisionFacts) -> Markup:
    """The decision in a sentence, for the top of the page."""
    title, colon, rest = sentence(found).partition(":")
    return el("p", el("b", title + colon), rest, class_=f"verdict t-{found.tone}")


def decision_section(found: DecisionFacts) -> Markup:
    """All of one decision."""
    if found.problem:
        return el("p", sentence(found))
    rules = [table for table in (_floors(found), _regressions(found)) if table is not None]
    plot, table = _difference_plot(found), _versus(found)
    return el(
        "div",
        el("ul", [el("li", line) for line in found.why], class_="why") if found.why else None,
        el("div", plot, el("div", rules, class_="stack") if rules else None, class_="charts")
        if plot or rules
        else None,
        el("div", table, class_="below") if table else None,
        el("p", how(found), class_="method"),
        class_="decision",
    )


def how(found: DecisionFacts) -> str:
    """Say what was compared, and on which samples."""
    theirs = f"version {found.champion_version}" if found.champion_version else "no champion"
    parts = [f"Candidate against {theirs}{f' of {found.group}' if found.group else ''}"]
    if found.anchor_version:
        parts[0] += f" and version {found.anchor_version}, the best approved one"
    if found.registry:
        parts.append(f"registry {found.registry}")
    if found.rows is not None:
        parts.append(f"the same {count(found.rows, 'sample')} for both" if found.champion_version else
                     count(found.rows, "sample"))  # fmt: skip
    if found.method:
        parts.append(f"the difference's interval by {found.method}{f', {found.unless}' if found.unless else ''}")
    return "; ".join(parts) + "."


def _versus(found: DecisionFacts) -> Markup | None:
    """The metrics of both, the deciding one first."""
    names = [name for name in dict.fromkeys([*found.candidate, *found.champion]) if "_class_" not in name]
    names.sort(key=lambda name: name != found.metric)
    if not names:
        return None
    differences = {one.metric: one.measure for one in found.differences if not one.slice}
    if found.difference is not None:
        differences[found.metric] = found.difference
    share = "" if found.confidence is None else f"{found.confidence * 100:.4g} % interval"
    heads = ("metric", "candidate", *(("champion", "difference", share) if found.champion else ()))
    rows = [_versus_row(found, name, differences.get(name)) for name in names]
    style = "metrics versus" if found.champion else "metrics"

    def part(rows: Sequence[Row]) -> Markup:
        return scrolled(table(heads, rows, right=range(1, 4), style=style))

    folded = rows[MAX_ROWS : MAX_ROWS + MAX_FOLDED]
    summary = el("summary", count(len(rows) - MAX_ROWS, "more metric"))
    return el("div", part(rows[:MAX_ROWS]), el("details", summary, part(folded)) if folded else None)


def _versus_row(found: DecisionFacts, name: str, difference: Measure | None) -> Row:
    ours, theirs = found.candidate.get(name), found.champion.get(name)
    deciding = name == found.metric
    cells: list[Content] = [[words(name), el("small", "decides") if deciding else None], _value(ours)]
    if found.champion:
        gap = ours.value - theirs.value if ours is not None and theirs is not None else None
        gap = difference.value if difference is not None else gap
        better = found.higher_is_better if deciding else ours.higher_is_better if ours is not None else None
        cells.append(_value(theirs))
        cells.append("–" if gap is None else signed(gap))
        # Earlier versions wrote intervals without the errors of the values.
        bound = 0.0 if found.method or difference is None else difference.bound
        cells.append(_side(gap, difference, better, bound, promoted=found.verdict == "register"))
    return Row(cells, "deciding" if deciding else None)


def _side(
    gap: float | None, difference: Measure | None, higher_is_better: bool | None, bound: float, *, promoted: bool
) -> Content:
    """The interval of a difference, and whether all of it lies on one side, also where `bound` is taken off. Better is
    green only where it was promoted for it."""
    if difference is None or difference.interval is None:
        good = None if not gap or higher_is_better is None else (gap > 0) == higher_is_better
        return el("small", "" if good is None else "better" if good else "worse")
    low, high = difference.interval
    unclear = low - bound <= 0 <= high + bound
    good = None if unclear or higher_is_better is None else (low > 0) == higher_is_better
    said = "" if good is None else " better" if good else " worse"
    mark = None if good is None else el("span", said, class_="held" if good else "broken")
    if good and not promoted:
        mark = el("small", said)
    return [f"{signed(low)} to {signed(high)}", mark]


def _value(measure: Measure | None) -> Cell:
    return Cell("–") if measure is None else Cell(value_words(measure), title=repr(measure.value))


def _difference_plot(found: DecisionFacts) -> Markup | None:
    """The deciding metric's difference to the champion's, on all samples and on slices, with the budgets on it."""
    if found.difference is None:
        return None
    budgets = {one.slice: one for one in found.regressions if one.metric == found.metric}
    sign = -1.0 if found.higher_is_better is False else 1.0
    slices = [(one.slice, one.measure) for one in found.differences if one.metric == found.metric and one.slice]
    slices += [
        (one.slice, Measure(name=one.metric, value=one.difference))
        for one in budgets.values()
        if one.difference is not None and one.slice not in ("", *(name for name, _ in slices))
    ]
    slices.sort(key=lambda pair: sign * pair[1].value)
    rows: list[Dot] = []
    for name, measure in [("", found.difference), *slices]:
        budget = budgets.get(name)
        limit = None if budget is None or budget.budget is None else drawable(-sign * budget.budget)
        if measure.is_drawable:
            rows.append(
                Dot(
                    name=name or "all samples",
                    value=measure.value,
                    interval=measure.interval,
                    limit=limit,
                    note="" if limit is None else f"may be {signed(limit)}",
                    tone="" if budget is None or budget.within else "bad",
                )
            )
    title = f"{words(found.metric)}, difference to the champion"
    shown = rows[:MAX_DOTS]
    note = el("span", f"{len(shown)} of {len(rows):,}", class_="legend") if len(rows) > len(shown) else None
    return dot_plot(title, shown, reference=0.0, reference_name="no difference", differences=True, note=note)


def _floors(found: DecisionFacts) -> Markup | None:
    rows = [
        (
            words(name_of(one.metric, one.slice)),
            "not defined" if one.value is None else number(one.value),
            floor_limit(one),
            _mark(one.met, "met", "not met"),
        )
        for one in sorted(found.floors, key=lambda one: one.met)[:MAX_RULE_ROWS]
    ]
    return _rules("Floors", ("metric", "value", "limit", ""), rows, len(found.floors))


def _regressions(found: DecisionFacts) -> Markup | None:
    rows = [
        (
            words(name_of(one.metric, one.slice)),
            "not defined" if one.difference is None else signed(one.difference),
            number_or_dash(one.at_most),
            number_or_dash(one.budget),
            number_or_dash(one.could_rule_out),
            _mark(one.within, "not tested" if one.untested else "within", "not proven" if found.proven else "beyond"),
        )
        for one in sorted(found.regressions, key=lambda one: one.within)[:MAX_RULE_ROWS]
    ]
    head = ("metric", "difference", "worse by at most", "budget", "can rule out", "")
    return _rules("Regressions", head, rows, len(found.regressions))


def _rules(caption: str, head: tuple[str, ...], rows: Sequence[Sequence[Content]], there: int) -> Markup | None:
    if not rows:
        return None
    more = f", the first {len(rows)} of {there:,}" if there > len(rows) else ""
    return scrolled(table(head, rows, right=range(1, len(head) - 1), caption=caption + more, style="metrics rules"))


def _mark(good: bool, yes: str, no: str) -> Markup:
    return el("span", f"✓ {yes}" if good else f"✕ {no}", class_="held" if good else "broken")
