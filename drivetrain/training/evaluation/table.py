"""An evaluation as a table for people: each number with how far it may be off, and how far it may vary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drivetrain.training.evaluation.document import OF_A_CLASS

# Numbers of single classes that are shown; all are in evaluation.json.
MAX_CLASS_ROWS = 12
MAX_SLICES = 40


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The table of what evaluation.json holds."""
    bootstrap = document["bootstrap"]
    interval = f"{100 * bootstrap['confidence']:.4g} % interval" if bootstrap else ""
    metrics: Mapping[str, Any] = document["metrics"]
    overall = [name for name in metrics if OF_A_CLASS not in name]
    of_classes = [name for name in metrics if OF_A_CLASS in name]
    shown = overall + of_classes[:MAX_CLASS_ROWS]
    rows = [(name, *_cells(metrics[name])) for name in shown]
    yield from _table(("metric", "value", "within", interval), rows)
    if len(of_classes) > MAX_CLASS_ROWS:
        yield f"  and {len(of_classes) - MAX_CLASS_ROWS:,} more of single classes"
    for name, why in document["undefined"].items():
        yield f"  {name} is undefined: {why}"
    for name, entry in document.get("absolute_error", {}).items():
        between = f" ({number(entry['low'])} to {number(entry['high'])})" if "low" in entry else ""
        yield f"  absolute error, {name.replace('_', ' ')}: {number(entry['value'])}{between}"
    for unless in dict.fromkeys(entry["unless"] for entry in metrics.values() if entry.get("unless")):
        named = [name for name in shown if metrics[name].get("unless") == unless]
        yield f"  Intervals of {', '.join(named)}: {unless}" if named else ""
    for name, entry in metrics.items():
        if entry.get("advice"):
            yield f"  {name}: {entry['advice']}"
    yield from (f"  {note}" for note in document.get("notes", ()))
    yield from _slices(document["slices"], document["num_samples"], overall, metrics)


def _slices(
    slices: Sequence[Mapping[str, Any]], num_samples: int, overall: Sequence[str], metrics: Mapping[str, Any]
) -> Iterator[str]:
    """A row a slice, with those numbers that people compare first."""
    if not slices:
        return
    names = [name for name in overall if metrics[name].get("higher_is_better") is not None][:4] or list(overall)[:4]
    rows = [("all", f"{num_samples:,}", *(number(metrics[name]["value"]) for name in names))]
    for one in slices[:MAX_SLICES]:
        found = one["metrics"]
        values = (number(found[name]["value"]) if name in found else "undefined" for name in names)
        rows.append((f"{one['column']}={one['value']}", f"{one['num_samples']:,}", *values))
    yield ""
    yield from _table(("slice", "samples", *names), rows)
    if len(slices) > MAX_SLICES:
        yield f"  and {len(slices) - MAX_SLICES:,} more slices"


def _cells(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    bound = f"± {entry['bound']:.2g}" if entry["bound"] else "exact"
    known = entry.get("low") is not None and entry.get("high") is not None
    why_none = entry.get("no_interval", "").partition(":")[0]
    return number(entry["value"]), bound, f"{number(entry['low'])} to {number(entry['high'])}" if known else why_none


def number(value: float) -> str:
    """A number in six digits; whole ones as they are."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column to the left, the others to the right; columns without anything in them are left out."""
    kept = [place for place in range(len(head)) if place == 0 or any(row[place] for row in rows)]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in kept]
    for row in (head, *rows):
        cells = [row[place] for place in kept]
        words = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        yield ("  " + "  ".join(words)).rstrip()
