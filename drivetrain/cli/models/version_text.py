"""A registered version for a terminal: its metrics, the decision on it, where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.formatting import approval_words, cut, moment, printable
from drivetrain.cli.runs.evaluation_text import decision_lines, metrics_table, per_class_lines
from drivetrain.registry.binding import AGAINST
from drivetrain.registry.card_sections import NO_DECISION
from drivetrain.registry.record import CARD_RECORD
from drivetrain.telling.content.decision import DecisionFacts, decision
from drivetrain.telling.content.evaluation import Measure, ranked
from drivetrain.telling.terminal import paint

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelEvent, ModelVersion

MAX_ROWS = 40
MAX_CARD_LINES = 400
MAX_CARD_CHARACTERS = 1_000
_BOUND = "_bound"


def version_text(version: ModelVersion, events: list[ModelEvent], place: str) -> str:
    """All of a version, a paragraph each; `place` is what a suggested command must repeat to find it."""
    status = paint(approval_words(version.status), version.status)
    facts = {
        "status": status + (f" ({printable(version.reason)})" if version.reason else ""),
        "registered": moment(version.created_at),
        "execution": printable(version.execution or "–"),
        "artifact": printable(version.artifact or "–"),
        "content": printable(version.content_hash or "–"),
        "arn": printable(version.arn or "–"),
    }
    if version.record.baselines:
        facts["baselines"] = printable(version.record.baselines)
    lineage = {name: value for name, value in version.lineage.items() if name != "execution"}
    blocks = [
        paint(f"{printable(version.group)} version {version.version}", "bold") + "\n" + _facts(facts),
        _metrics(version),
        _decision(version),
        _titled("lineage", _facts({name: printable(value) for name, value in lineage.items()})),
        _titled("card", _card_parts(version, place)),
        _titled("history", "\n".join(_events(events))),
    ]
    return "\n\n".join(block for block in blocks if block)


def version_json(version: ModelVersion) -> dict[str, Any]:
    """A version for scripts, with what is read out of its package."""
    from dataclasses import asdict

    return {
        **asdict(version),
        "artifact": version.artifact,
        "lineage": dict(version.lineage),
        "decision": version.decision,
        "card": version.card,
    }


def measures_of(version: ModelVersion) -> dict[str, Measure]:
    """The metrics of a version, those first that people ask for first.

    A bound that is kept beside a metric belongs to it; what the record of the decision knows of a metric besides (its
    interval, which way is better) is added.
    """
    known = recorded(version)
    told: Mapping[str, Measure] = known.candidate if known is not None else {}
    found: dict[str, Measure] = {}
    for name, value in version.metrics.items():
        if name.endswith(_BOUND) and name.removesuffix(_BOUND) in version.metrics:
            continue
        measure = told.get(name)
        bound = abs(version.metrics.get(name + _BOUND, 0.0))
        # The record may be of another evaluation of the same content.
        same = measure is not None and measure.value == value
        found[name] = measure if measure is not None and same else Measure(name=name, value=value, bound=bound)
    return {one.name: one for one in ranked(found.values())}


def recorded(version: ModelVersion) -> DecisionFacts | None:
    """The whole record of the decision; None where the registry keeps none, or but a few words of it."""
    found = version.decision
    return decision("", found) if found and isinstance(found.get("candidate"), Mapping) else None


def _metrics(version: ModelVersion) -> str:
    measured = measures_of(version)
    overall = [one for one in measured.values() if one.per_class is None]
    known = recorded(version)
    of_classes = per_class_lines({name: one.value for name, one in measured.items() if one.per_class})
    lines = [metrics_table(overall[:MAX_ROWS], known.confidence if known else None)]
    if len(overall) > MAX_ROWS:
        lines.append(f"… {len(overall) - MAX_ROWS} more (--json has them)")
    lines += [printable(line) for line in of_classes]
    return "\n".join(line for line in lines if line)


def _decision(version: ModelVersion) -> str:
    found = version.decision
    if not found:
        return _titled("decision", f"  {NO_DECISION}")
    known = recorded(version)
    if known is not None:
        against = [f"  Registered {printable(found[AGAINST])}"] if isinstance(found.get(AGAINST), str) else []
        return _titled("decision", "\n".join([*against, *(f"  {line}" for line in decision_lines(known))]))
    texts = {printable(name): printable(_plain(value)) for name, value in found.items()}
    return _titled("decision", _facts(texts))


def _events(events: list[ModelEvent]) -> Iterator[str]:
    for event in events:
        done = "registered" if event.previous_status is None else approval_words(event.status)
        by = f" by {printable(event.by)}" if event.by else ""
        reason = f": {printable(event.reason)}" if event.reason else ""
        yield f"  {moment(event.at)}  {done}{by}{reason}"


def _card_parts(version: ModelVersion, place: str) -> str:
    whole = f"  the whole of it: drivetrain models card {printable(version.group)} {version.version}{place}"
    if not version.card:
        return whole
    kept = ", ".join(printable(str(name).replace("_", " ")) for name in list(version.card)[:20])
    return f"  {kept} (--card prints it)\n{whole}"


def card_text(card: Mapping[str, Any]) -> str:
    """A card as indented lines, whatever it holds; the decision's record in it, which `show` tells, is left out."""
    lines: list[str] = []
    for line in _tree(card, 0):
        if len(lines) == MAX_CARD_LINES:
            lines.append("… (--json has all of it)")
            break
        lines.append(line)
    return "\n".join(lines)


def _tree(value: object, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            if str(name).startswith(CARD_RECORD):
                continue  # the record of the decision in pieces, which is no text for people
            if isinstance(inner, Mapping | list) and inner:
                yield f"{indent}{printable(str(name).replace('_', ' '))}:"
                yield from _tree(cast("object", inner), depth + 1)
            else:
                yield f"{indent}{printable(str(name).replace('_', ' '))}: {printable(_plain(cast('object', inner)))}"
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            lines = list(_tree(inner, 0))
            yield from (f"{indent}{'- ' if not place else '  '}{line}" for place, line in enumerate(lines))
    else:
        yield indent + printable(_plain(value))


def _plain(value: object) -> str:
    return "–" if value in (None, "", [], {}) else cut(str(value), MAX_CARD_CHARACTERS)


def _facts(facts: Mapping[str, str]) -> str:
    widest = max(map(len, facts), default=0)
    return "\n".join(f"  {printable(name).ljust(widest)}  {value}" for name, value in facts.items())


def _titled(title: str, text: str) -> str:
    return f"{paint(title, 'bold')}\n{text}" if text else ""
