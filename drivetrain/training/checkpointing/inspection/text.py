"""Lists, contents, verdicts and exports as people read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drivetrain.base.bounds import is_number
from drivetrain.base.formatting import count, duration, number, printable, size
from drivetrain.training.checkpointing.attempts import Attempt
from drivetrain.training.checkpointing.inspection.contents import Contents, TensorFacts
from drivetrain.training.checkpointing.inspection.export import Exported
from drivetrain.training.checkpointing.inspection.listing import GOOD, QUARANTINED, Listing, Row
from drivetrain.training.checkpointing.inspection.terminal import ago, paint, table
from drivetrain.training.checkpointing.inspection.verification import Problem, Verdict
from drivetrain.training.checkpointing.store.retention import seconds_of

_METRICS, _HISTORY = 3, 5
_LONG_TEXT = 100
# So many files of another program are shown to people.
_OWN = 20


def listing_text(found: Sequence[Listing], now: float, names: Mapping[str, str]) -> str:
    """A table for each training; of several, with the name by which it is chosen."""
    return "\n\n".join(_listed(each, now, names[each.training] if len(found) > 1 else "") for each in found)


def _listed(found: Listing, now: float, name: str) -> str:
    head = paint(printable(found.place), "bold")
    if name:
        head += f"\n--training {printable(name)}"
    if found.at_work is not None:
        head += f"  (at work: {printable(found.at_work.describe())})"
    if found.started is not None:
        head += "\n" + printable(_belongs(found, now))
    if found.own:
        return f"{head}\n{_own_text(found, now)}"
    if not found.rows:
        return f"{head}\nno checkpoint yet"
    rows = [_cells(row, now) for row in found.rows]
    styles = [["bold" if row.newest else "", "", "", "", "", "", row.state, "dim"] for row in found.rows]
    lines = [head, table(("step", "epoch", "saved", "size", "written by", "metrics", "state", "note"), rows, styles)]
    for behind in found.behind[:1]:
        lines.append(
            f"The agent that uploads this folder is behind: {len(behind.waiting)} of {behind.num_files} files "
            f"({size(behind.num_bytes)}) of step {behind.step} have not been uploaded."
        )
    if found.arrival_seconds is not None and found.arrival_seconds >= 1:
        lines.append(f"The newest was whole in the object store {duration(found.arrival_seconds)} after it was saved.")
    if any(row.state == QUARANTINED for row in found.rows):
        lines.append(paint("A quarantined one is never resumed from; its report.json says what was found.", "dim"))
    if any(row.state == GOOD for row in found.rows):
        lines.append(paint("good: its manifest and the sizes of its files hold. Every byte: verify", "dim"))
    return "\n".join(lines)


def _belongs(found: Listing, now: float) -> str:
    """`run p4jn9, 3 hours ago, ended; otherwise than in the latest training: learning_rate 0.1 -> 0.5`."""
    run = f"run {found.run}, " if found.run else ""
    how = "ended" if found.ended else "not ended"
    differs = f"; in the latest training otherwise: {', '.join(found.differs)}" if found.differs else ""
    return f"{run}started {ago(found.started, now)}, {how}{differs}"


def _own_text(found: Listing, now: float) -> str:
    """The files of another program, and what cannot be done with them."""
    what = found.recognised or "the files of another program, such as a script of your own."
    rows = [
        [
            each.name,
            "–" if each.bytes is None else size(each.bytes),
            "many" if each.files is None else f"{each.files:,}",
            ago(each.modified, now),
        ]
        for each in found.own[:_OWN]
    ]
    lines = [table(("name", "size", "files", "changed"), rows)]
    if found.own[_OWN:]:
        lines.append(f"and {len(found.own) - _OWN} more; all: --json")
    lines.append(f"No checkpoint of a recipe is here, but {what}")
    lines.append(
        "By the numbers in the names, the highest first. What they mean and whether they are whole, only that program "
        "can tell: show, verify and export take checkpoints that have a manifest."
    )
    return "\n".join(lines)


def _cells(row: Row, now: float) -> list[str]:
    marks = ["newest"] * row.newest + ["best"] * row.best + ["finished"] * row.finished
    shown = [f"{name} {number(value)}" for name, value in list(row.metrics.items())[:_METRICS]]
    ranks = "–" if row.world_size is None else f"{row.world_size} x {row.strategy or '?'}"
    return [
        str(row.step),
        "–" if row.epoch is None else str(row.epoch),
        ago(row.saved_at, now),
        size(row.bytes),
        ranks,
        ", ".join(shown) or "–",
        row.state,
        ", ".join([*marks, *([row.problem] if row.problem else [])]),
    ]


def contents_text(found: Contents, now: float) -> str:
    """Files, tensors, values, starts."""
    values = {**found.values}
    saved = ago(seconds_of(values.pop("saved_at", None)), now)
    total = sum(file.size for file in found.files)
    blocks = [
        f"{paint(f'step {found.step}', 'bold')}  {printable(found.place)}/{found.folder}\n"
        f"saved {saved}, {count(len(found.files), 'file')}, {size(total)}",
        table(
            ("file", "size", "crc32"),
            [[file.name, size(file.size), f"{file.crc32:08x}"] for file in found.files],
        ),
    ]
    if found.tensors:
        blocks.append(_tensors_text(found.tensors))
    config = values.pop("config", None)
    values.pop("metrics", None)
    if found.metrics:
        blocks.append(_pairs("metrics", {name: number(value) for name, value in found.metrics.items()}))
    if values:
        blocks.append(_pairs("values", {name: _short(value) for name, value in values.items()}))
    if isinstance(config, dict) and config:
        blocks.append(_pairs("config", {name: _short(value) for name, value in config.items()}))
    history = found.state.get("history")
    if isinstance(history, list) and history:
        shown = [_entry(entry) for entry in history[-_HISTORY:]]
        more = f" (the last {_HISTORY} of {len(history)})" if len(history) > _HISTORY else ""
        blocks.append("\n".join([paint(f"validations{more}", "bold"), *(f"  {line}" for line in shown)]))
    if found.attempts:
        blocks.append(_attempts_text(found.attempts, now))
    return "\n\n".join(blocks)


def _tensors_text(tensors: Sequence[TensorFacts]) -> str:
    cut = sum(tensor.parts > 1 for tensor in tensors)
    head = paint(
        f"{count(len(tensors), 'tensor')}, {size(sum(tensor.bytes for tensor in tensors))}, {cut} of them in parts",
        "bold",
    )
    rows = [
        [tensor.name, tensor.dtype, " x ".join(map(str, tensor.shape)) or "a number", str(tensor.parts)]
        for tensor in tensors
    ]
    return f"{head}\n{table(('tensor', 'type', 'shape', 'parts'), rows)}"


def _attempts_text(attempts: Iterable[Attempt], now: float) -> str:
    found = list(attempts)
    rows = [
        [
            str(each.number),
            ago(each.started or None, now),
            f"{each.first_step} to {each.step}",
            duration(each.seconds),
            str(each.saves),
            # One training at a time: a training with a successor is not at work.
            each.ended or ("interrupted, or at work" if each is found[-1] else "interrupted"),
        ]
        for each in found
    ]
    return f"{paint('starts', 'bold')}\n{table(('start', 'when', 'steps', 'for', 'saves', 'ended'), rows)}"


def _pairs(title: str, pairs: dict[str, str]) -> str:
    widest = max(len(printable(name)) for name in pairs)
    return "\n".join(
        [paint(title, "bold"), *(f"  {printable(name).ljust(widest)}  {text}" for name, text in pairs.items())]
    )


def _entry(entry: Any) -> str:
    if not isinstance(entry, dict):
        return _short(entry)
    shown = (f"{name} {number(v) if is_number(v) else _short(v)}" for name, v in entry.items())
    return printable(", ".join(shown))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = printable(text)
    return text if len(text) <= _LONG_TEXT else text[: _LONG_TEXT - 1] + "…"


def verdict_text(verdict: Verdict, training: str) -> str:
    """A line, and one more for each damaged file.

    Args:
        training: its name; "" where the place holds no other.
    """
    name = f"step {verdict.step}" + (f" of {printable(training)}" if training else "")
    head = f"{name}: {paint(verdict.state, verdict.state)}"
    if verdict.state == GOOD:
        return f"{head}, {count(verdict.files, 'file')}, {size(verdict.bytes)} read in {duration(verdict.seconds)}"
    lines = [head if verdict.counts else f"{head}, and does not count"]
    for problem in verdict.problems:
        lines.append(f"  {printable(problem.problem)}{_compared(problem)}")
    if verdict.quarantined:
        lines.append(f"  moved to {verdict.quarantined}; a training goes on from the one before it")
    return "\n".join(lines)


def _compared(problem: Problem) -> str:
    """The expected and the found value, unless the problem's own text has them."""
    pairs = {"expected": problem.expected, "found": problem.found}
    told = [
        f"{word} {_short(value)}"
        for word, value in pairs.items()
        if value is not None and not any(text in problem.problem for text in (str(value), _grouped(value)))
    ]
    return f" ({', '.join(told)})" if told else ""


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


_WEIGHTS = {
    "parameters": "the weights",
    "unmeasured": "the weights themselves, and not their moving average",
    "average": "the moving average in the parameters' place",
    "best": "the model of the best validation",
    "everything": "everything, the optimizer's state included",
}


def exported_text(done: Exported) -> str:
    return (
        f"{printable(done.path)}: step {done.step}, {_WEIGHTS[done.weights]}, {count(done.tensors, 'tensor')}, "
        f"{size(done.bytes)}, sha256 {done.sha256}"
    )
