"""decision.md: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drivetrain.decision.absolute_errors import quantiles_of
from drivetrain.decision.deciding import Decision
from drivetrain.decision.differences import Difference
from drivetrain.decision.evaluation import ALL
from drivetrain.decision.formatting import count, number, percent, place, signed
from drivetrain.decision.intervals import UNLESS

_MOST_METRICS = 20
_MOST_SLICES = 20


@dataclass(frozen=True, kw_only=True)
class About:
    """The facts of the record beside the decision."""

    group: str
    registry: str
    candidate_hash: str


def page(decision: Decision, about: About) -> str:
    """The text, in Markdown."""
    lines = [f"# {_title(decision, about)}", ""]
    lines += [f"- {reason}" for reason in decision.why]
    lines += [
        "",
        *_metrics(decision),
        *_absolute_errors(decision),
        *_floors(decision),
        *_budgets(decision),
        *_slices(decision),
    ]
    lines += ["## What was compared", "", *(f"- {line}" for line in _grounds(decision, about))]
    return "\n".join(lines) + "\n"


def _title(decision: Decision, about: About) -> str:
    group = _cell(about.group)
    if decision.verdict == "register":
        if decision.champion is None:
            return f"Register the candidate in {group}: there is no champion yet"
        how = "beats" if decision.policy.rule == "better" else "is not worse than"
        return f"Register the candidate in {group}: it {how} version {decision.champion.version}"
    if decision.verdict == "keep champion":
        assert decision.champion is not None, "a champion is kept where there is one"
        return f"Keep version {decision.champion.version} of {group}"
    if decision.verdict == "already registered":
        assert decision.registered is not None, "the verdict says so"
        return f"Nothing to register in {group}: the candidate is already version {decision.registered.version}"
    return f"Do not register the candidate in {group}: it is below a floor"


def _metrics(decision: Decision) -> Iterator[str]:
    whole = decision.candidate.whole.metrics
    first = decision.policy.metric
    names = [first, *(name for name in whole if name != first and "_class_" not in name and not _is_bound(name))]
    shown = names[:_MOST_METRICS]
    by_name = {each.metric: each for each in decision.differences if not each.slice}
    yield "## Metrics"
    yield ""
    if not by_name:
        yield from _table(("metric", "candidate"), [(_name(name, first), number(whole[name].value)) for name in shown])
        return
    rows: list[tuple[str, ...]] = []
    for name in shown:
        each = by_name.get(name)
        value = number(whole[name].value)
        rows.append(
            (_name(name, first), value, "undefined", "", "", "")
            if each is None
            else (
                _name(name, first),
                value,
                number(each.champion),
                signed(each.value),
                _interval(each),
                _way(each, decision),
            )
        )
    yield from _table(("metric", "candidate", "champion", "difference", "interval", "the candidate is"), rows)
    if len(names) > len(shown):
        yield from (f"And {count(len(names) - len(shown), 'more metric')} in decision.json.", "")


def _absolute_errors(decision: Decision) -> Iterator[str]:
    found = quantiles_of(decision)
    if not found:
        return
    yield from ("## Absolute error", "")
    yield from _table(
        ("quantile", "candidate", "champion", "difference", "interval, for every distribution"),
        [
            (
                one.name.replace("_", " "),
                number(one.candidate),
                number(one.champion),
                signed(one.candidate - one.champion),
                "" if one.low is None or one.high is None else f"{signed(one.low)} to {signed(one.high)}",
            )
            for one in found
        ],
    )


def _floors(decision: Decision) -> Iterator[str]:
    if not decision.floors:
        return
    yield from ("## Floors", "")
    yield from _table(
        ("metric", "required", "candidate", ""),
        [
            (
                _cell(place(floor.metric, floor.slice)),
                f"{'at least' if floor.higher_is_better else 'at most'} {number(floor.least)}",
                number(floor.value) + (f" ± {number(floor.bound)}" if floor.bound else ""),
                ("met, perhaps by chance" if floor.sure is False else "met") if floor.met else "**not met**",
            )
            for floor in decision.floors
        ],
    )


def _budgets(decision: Decision) -> Iterator[str]:
    if not decision.regressions:
        return
    broken = "not proven" if decision.policy.budget_rule == "proven" else "exceeded"
    yield from ("## Budgets", "")
    yield from _table(
        ("metric", "may be worse by", "difference", "worse by at most", "samples", "can rule out", "by chance in", ""),
        [
            (
                _cell(place(loss.metric, loss.slice)),
                number(loss.budget),
                signed(loss.difference),
                "" if loss.at_most is None else number(loss.at_most),
                f"{loss.samples:,}",
                "" if loss.could_rule_out is None else number(loss.could_rule_out),
                "" if loss.chance is None else percent(loss.chance),
                "not tested" if loss.untested else "kept" if loss.within else f"**{broken}**",
            )
            for loss in decision.regressions
        ],
    )
    if all(loss.at_most is None for loss in decision.regressions):
        return
    yield from (
        f"A loss greater than `worse by at most` is ruled out with {percent(decision.policy.confidence)} confidence, "
        "one budget by itself. `can rule out` is what so many samples rule out in 80 % of cases where both models are "
        "equally good.",
        "",
    )


def _slices(decision: Decision) -> Iterator[str]:
    metric = decision.policy.metric
    compared = [each for each in decision.differences if each.slice and each.metric == metric]
    if not compared:
        return
    worse = sorted((each for each in compared if each.gain < 0), key=lambda each: each.gain)
    yield from ("## Slices that got worse", "")
    if not worse:
        yield from (f"None of the {count(len(compared), 'slice')} by {_cell(metric)}.", "")
        return
    groups = decision.candidate.groups
    yield from _table(
        ("slice", "samples", "candidate", "champion", "difference", "interval"),
        [
            (
                _cell(each.slice),
                f"{groups[each.slice].num_samples:,}",
                number(each.candidate),
                number(each.champion),
                signed(each.value),
                _interval(each),
            )
            for each in worse[:_MOST_SLICES]
        ],
    )
    told = f"{len(worse)} of {count(len(compared), 'slice')} by {_cell(metric)}"
    yield from (f"{told}." if len(worse) <= _MOST_SLICES else f"{told}; the rest in decision.json.", "")


def _grounds(decision: Decision, about: About) -> Iterator[str]:
    candidate, policy = decision.candidate, decision.policy
    yield f"Candidate: content {about.candidate_hash[:12] or 'unknown'}"
    if decision.champion is None:
        yield f"Champion: none, no version of {_cell(about.group)} is approved in {_cell(about.registry)}"
    else:
        known = decision.champion.content_hash[:12] or "unknown"
        yield (
            f"Champion: version {decision.champion.version} of {_cell(about.group)} in {_cell(about.registry)}, "
            f"content {known}" + ("" if decision.champion.evaluation else " (not evaluated)")
        )
    if decision.anchor is not None:
        known = decision.anchor.content_hash[:12] or "unknown"
        yield f"Best approved version: {decision.anchor.version}, content {known}; the candidate must not be worse, too"
    used = "" if decision.comparison is None else f", comparison {decision.comparison:,} on it"
    yield f"Test set: {count(candidate.rows, 'row')}, content {candidate.data_hash[:12] or 'unknown'}{used}"
    methods = dict.fromkeys(each.interval.method for each in decision.differences if each.interval is not None)
    if methods:
        yield f"Intervals: {', '.join(methods)}; each holds for one metric"
    else:
        yield "No intervals: the values are compared alone"
    if any(each.unless for each in decision.differences):
        yield f"Intervals of means of losses and errors hold {UNLESS}"
    if policy.budget_limits:
        yield "Budgets: " + (
            "each must be proven by itself"
            if policy.budget_rule == "proven"
            else "exceeded by a significant loss (Holm)"
        )
    over = f"{count(policy.horizon, 'comparison')} on one test set"
    if decision.standing is not None:
        over = f"{count(policy.lines, 'line')} of candidates a year"
    yield (
        f"Rule: {policy.metric} {policy.rule.replace('_', ' ')}, margin {number(policy.margin)}, confidence "
        f"{percent(policy.confidence)} over {over}"
    )


def _interval(difference: Difference) -> str:
    interval = difference.interval
    if interval is not None:
        return f"{signed(interval.low)} to {signed(interval.high)}"
    return difference.why_none.partition(":")[0]


def _way(difference: Difference, decision: Decision) -> str:
    if difference.higher_is_better is None:
        return ""
    word = "better" if difference.gain > 0 else "worse" if difference.gain < 0 else "equal"
    interval = difference.interval
    if interval is None or word == "equal":
        return word
    if interval.low <= 0 <= interval.high:
        return f"{word}, perhaps by chance"
    decides = (difference.metric, difference.slice) == (decision.policy.metric, ALL)
    return f"{word}, not proven" if decides and difference.gain > 0 and not decision.better else word


def _name(name: str, first: str) -> str:
    return f"**{_cell(name)}**" if name == first else _cell(name)


def _is_bound(name: str) -> bool:
    return name.endswith("_bound")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _cell(text: str) -> str:
    """Text that may come from data, in one line and without meaning to Markdown or HTML."""
    for character in "\\`*[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
