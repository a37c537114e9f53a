"""The health of a run's trainings: which rules fired, which ranks computed when, where the time went."""

from __future__ import annotations

from drivetrain.base.formatting import duration, share
from drivetrain.base.markup import Content, Markup, el
from drivetrain.telling import scrolled, section, table
from drivetrain.telling.charts.frame import figure, svg
from drivetrain.telling.content.health import HealthFacts
from drivetrain.training.health.wording import rules_in_words

WIDTH, LEFT, ROW, STACK = 1080.0, 62.0, 18.0, 130.0
# In the order in which they lie upon each other: what computes below, what waits above.
ORDER = ("forward", "backward", "optimizer", "compute", "validation", "communication", "data", "save", "other")
MAX_ROWS = 64
MAX_STRAGGLERS = 8


def draw(found: tuple[HealthFacts, ...]) -> Markup:
    """The section of all trainings."""
    several = len(found) > 1
    parts = (_told, _hosts, _table, _pictures, _stragglers, _operators)
    blocks = [[el("h3", one.step) if several else None, [part(one) for part in parts]] for one in found]
    return section("Health", blocks, id="health")


def _told(one: HealthFacts) -> Content:
    source = el("p", f"{one.source}.") if one.source else None
    if one.healthy is None:
        return source
    fired = rules_in_words((finding.action for finding in one.findings), len(one.rules))
    warned = any(finding.action == "warn" for finding in one.findings)
    state = ("Healthy, with warnings. " if warned else "Healthy. ") if one.healthy else "Not healthy. "
    verdict = f" Time: {one.verdict}." if one.verdict else ""
    watched = f" They watched: {', '.join(one.rules)}." if one.rules else ""
    told = el(
        "p", el("b", state, class_="" if one.healthy else "unhealthy"), f"{fired.capitalize()}.", watched, verdict
    )
    return [told, source]


def _hosts(one: HealthFacts) -> Content:
    if not one.hosts:
        return None
    return el("p", [[el("b", f"Host {number}. "), words, ". "] for number, words in enumerate(one.hosts)])


def _table(one: HealthFacts) -> Content:
    if not one.findings:
        return None
    rows = [
        (
            el("code", finding.rule),
            finding.action,
            f"{finding.step:,}",
            [f"{finding.text}. ", el("span", finding.advice, class_="advice")],
        )
        for finding in one.findings
    ]
    return scrolled(table(("Rule", "Action", "Step", "What it saw"), rows, right=("Step",)), kind="health")


def _stragglers(one: HealthFacts) -> Content:
    """The slowest ranks, where there are several."""
    if not one.stragglers:
        return None
    rows = [
        (f"rank {slow.rank}", f"{slow.seconds * 1e3:.3g} ms", f"{slow.to_median - 1:+.1%}")
        for slow in one.stragglers[:MAX_STRAGGLERS]
    ]
    names = ("Slowest ranks", "Shortest step before it meets the others", "Beside the median")
    return scrolled(table(names, rows, right=names[1:]), kind="stragglers")


def _operators(one: HealthFacts) -> Content:
    """The table of operators, if a profile was asked for."""
    if not one.operators:
        return None
    rows = [
        (
            el("code", operator.name),
            f"{operator.milliseconds:,.2f} ms",
            share(min(operator.share, 1.0)),
            f"{operator.calls:,}",
        )
        for operator in one.operators
    ]
    names = (f"Longest operators of {one.profiled} steps of rank 0", "Its own time", "Share", "Calls")
    return scrolled(table(names, rows, right=names[1:]), kind="stragglers")


def _pictures(one: HealthFacts) -> Content:
    if not one.seconds or sum(one.seconds) <= 0:
        return None
    return [_heat(one), _stack(one)]


def _places(one: HealthFacts) -> list[tuple[float, float]]:
    """The left edge and the width of each stretch."""
    scale, at, found = (WIDTH - LEFT) / sum(one.seconds), LEFT, list[tuple[float, float]]()
    for seconds in one.seconds:
        found.append((at, seconds * scale))
        at += seconds * scale
    return found


def _heat(one: HealthFacts) -> Content:
    """A row a rank: the darker, the more of the time it computes."""
    if not one.busy:
        return None
    rows = one.busy[:MAX_ROWS]
    places = _places(one)
    cells = [
        el(
            "rect",
            el("title", f"rank {rank}: computes in {share(min(busy, 1.0))} of {duration(seconds)}"),
            x=f"{x:.1f}",
            y=f"{rank * ROW:.1f}",
            width=f"{width + 0.3:.1f}",
            height=f"{ROW - 2:.1f}",
            class_="busy",
            style=f"fill-opacity:{max(min(busy, 1.0), 0.03):.2f}",
        )
        for rank, row in enumerate(rows)
        for busy, seconds, (x, width) in zip(row, one.seconds, places, strict=True)
    ]
    names = [el("text", f"rank {rank}", x=0, y=f"{rank * ROW + 12:.1f}") for rank in range(len(rows))]
    more = f", the first {MAX_ROWS} of {len(one.busy)} ranks" if len(one.busy) > MAX_ROWS else ""
    return _figure(f"Utilisation of ranks over time{more}", None, [names, cells], ROW * len(rows), one)


def _stack(one: HealthFacts) -> Content:
    """The phases of a step, one upon the other."""
    phases = [name for name in ORDER if name in one.phases]
    if not phases:
        return None
    bars: list[Markup] = []
    for number, (x, width) in enumerate(_places(one)):
        below = 0.0
        for name in phases:
            part = min(one.phases[name][number], 1.0 - below)
            if part > 0.001:
                below += part
                bars.append(
                    el(
                        "rect",
                        el("title", f"{name}: {share(part)} of {duration(one.seconds[number])}"),
                        x=f"{x:.1f}",
                        y=f"{STACK * (1 - below):.1f}",
                        width=f"{width + 0.3:.1f}",
                        height=f"{STACK * part:.1f}",
                        class_=f"phase {name}",
                    )
                )
    labels = [el("text", label, x=LEFT - 6, y=y, text_anchor="end") for label, y in (("100 %", 11), ("0 %", STACK))]
    legend = [el("span", el("i", class_=f"key {name}"), name) for name in phases]
    return _figure("Phases of a step over time", legend, [labels, bars], STACK, one)


def _figure(title: str, legend: Content, body: Content, height: float, one: HealthFacts) -> Markup:
    whole = duration(sum(one.seconds))
    ends = [
        el("text", label, x=x, y=f"{height + 15:.0f}", text_anchor=anchor)
        for label, x, anchor in (("0", LEFT, "start"), (whole, WIDTH, "end"))
    ]
    picture = svg(f"{title}, {whole} in all", body, ends, size=(WIDTH, height + 20), kind="chart health")
    keys = el("span", legend, class_="legend phases") if legend else None
    return figure(title, keys, picture, kind="curve wide", scrolls=True)
