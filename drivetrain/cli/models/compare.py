"""`drivetrain models compare`: two versions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drivetrain.base.formatting import approval_words, printable, signed
from drivetrain.cli.models.version_text import measures_of, recorded
from drivetrain.telling.content.evaluation import Measure, value_words
from drivetrain.telling.terminal import paint, table

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion


def comparison(a: ModelVersion, b: ModelVersion) -> dict[str, Any]:
    """The metrics of both with the differences b - a, of the lineage what differs, and which of them continued the
    other ([later, earlier]), for scripts."""
    ours, theirs = measures_of(a), measures_of(b)
    paired = _paired(a, b)
    metrics: list[dict[str, Any]] = []
    names = sorted(dict.fromkeys([*ours, *theirs]), key=lambda name: "_class_" in name)
    for name in names:
        one, other = ours.get(name), theirs.get(name)
        measure = paired.get(name)
        gap = other.value - one.value if one is not None and other is not None else None
        metrics.append(
            {
                "name": name,
                "a": None if one is None else one.value,
                "b": None if other is None else other.value,
                "difference": gap,
                "bound": None if gap is None or one is None or other is None else one.bound + other.bound,
                "low": None if measure is None else measure.low,
                "high": None if measure is None else measure.high,
            }
        )
    lineage = {
        name: [a.lineage.get(name), b.lineage.get(name)]
        for name in dict.fromkeys([*a.lineage, *b.lineage])
        if a.lineage.get(name) != b.lineage.get(name)
    }
    same = bool(a.content_hash) and a.content_hash == b.content_hash
    continued = [[one.version, other.version] for one, other in ((b, a), (a, b)) if _continues(one, other)]
    return {"group": a.group, "a": a.version, "b": b.version, "same_content": same, "metrics": metrics,
            "lineage": lineage, "continued": continued[0] if continued else None}  # fmt: skip


def _continues(later: ModelVersion, earlier: ModelVersion) -> bool:
    return bool(earlier.content_hash) and later.lineage.get("continues") == earlier.content_hash


def comparison_text(a: ModelVersion, b: ModelVersion) -> str:
    """The same for people; metrics of single classes only where they differ."""
    found = comparison(a, b)
    ours, theirs = measures_of(a), measures_of(b)
    heads = ["metric", f"version {a.version}", f"version {b.version}", "difference"]
    rows = [
        [
            entry["name"],
            _value(ours.get(entry["name"])),
            _value(theirs.get(entry["name"])),
            "" if entry["difference"] is None else signed(entry["difference"]),
            "" if entry["low"] is None else f"{signed(entry['low'])} to {signed(entry['high'])}",
        ]
        for entry in found["metrics"]
        if "_class_" not in entry["name"] or entry["difference"]
    ]
    with_intervals = any(row[-1] for row in rows)
    if with_intervals:
        heads.append("interval")
    shown = [row if with_intervals else row[:-1] for row in rows]
    status = [f"version {one.version} {paint(approval_words(one.status), one.status)}" for one in (a, b)]
    blocks = [f"{paint(printable(a.group), 'bold')}: {', '.join(status)}"]
    blocks.append(table(heads, shown) if shown else "Neither version has metrics.")
    if found["same_content"]:
        blocks.append("Both have the same content.")
    if found["continued"]:
        later, earlier = found["continued"]
        blocks.append(f"The training of version {later} continued from version {earlier}.")
    if found["lineage"]:
        lines = [
            f"  {printable(name)}: {printable(one or '–')} -> {printable(other or '–')}"
            for name, (one, other) in found["lineage"].items()
        ]
        blocks.append("\n".join([paint("what differs in the lineage", "bold"), *lines]))
    if rows and not with_intervals:
        blocks.append("These versions were not compared on the same rows, so the differences may be chance.")
    return "\n\n".join(blocks)


def _paired(a: ModelVersion, b: ModelVersion) -> dict[str, Measure]:
    """The differences b - a with their intervals, where one of the two was decided on against the other."""
    for later, earlier, sign in ((b, a, 1.0), (a, b, -1.0)):
        record = recorded(later)
        if record is None or not earlier.content_hash or record.champion_hash != earlier.content_hash:
            continue
        found = {one.metric: one.measure for one in record.differences if not one.slice}
        if record.difference is not None:
            found[record.metric] = record.difference
        return {name: measure if sign > 0 else _turned(measure) for name, measure in found.items()}
    return {}


def _turned(measure: Measure) -> Measure:
    from dataclasses import replace

    low, high = measure.low, measure.high
    return replace(
        measure, value=-measure.value, low=None if high is None else -high, high=None if low is None else -low
    )


def _value(measure: Measure | None) -> str:
    return "–" if measure is None else value_words(measure)
