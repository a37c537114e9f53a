"""`drivetrain runs compare`: what differs between runs of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text
from drivetrain.base.formatting import duration, number_or_dash, printable, signed, status_word
from drivetrain.telling.content.comparison import COST
from drivetrain.telling.terminal import paint, table

if TYPE_CHECKING:
    from drivetrain.telling.content.comparison import Comparison

# The reason that inputs cannot be compared.
NOT_COMPARABLE = "a run lacks it, or read an archive where another run read the files"


def comparison_text(found: Comparison) -> str:
    """Settings that differ, metrics side by side, and what else differs, for people."""
    ids = [run.facts.id for run in found.runs]
    blocks = [
        table(
            ["run", "pipeline", "status", "time", "its steps"],
            [
                [
                    run.facts.id,
                    run.facts.pipeline,
                    status_word(run.facts.shown_status),
                    duration(run.facts.seconds),
                    duration(run.step_seconds),
                ]
                for run in found.runs
            ],
            styles=[["bold", "", run.facts.shown_status, "", ""] for run in found.runs],
        )
        + f"\n{paint('Cost', 'bold')}: {COST}."
    ]
    if found.settings:
        rows = [[name, *map(_text, values)] for name, values in found.settings.items()]
        blocks.append(table(["setting", *ids], rows, ids=ids))
    else:
        blocks.append("All settings are the same.")
    if rows := _metric_rows(found):
        more = ["difference", "interval"] if len(ids) == 2 else []
        blocks.append(table(["metric", *ids, *more], rows, ids=ids))
    if found.not_paired:
        blocks.append(printable(found.not_paired))
    if found.data:
        blocks.append(f"{paint('Data that differs', 'bold')}: {', '.join(map(printable, found.data))}")
    if found.data_not_comparable:
        names = ", ".join(map(printable, found.data_not_comparable))
        blocks.append(f"{paint('Data that is not comparable', 'bold')}: {names} ({NOT_COMPARABLE})")
    if found.same_code is not True:
        blocks.append(f"{paint('Code', 'bold')}: {'not comparable' if found.same_code is None else 'differs'}")
    return "\n\n".join(blocks)


def _metric_rows(found: Comparison) -> list[list[str]]:
    """Metrics of single classes only where they differ; of two runs with the difference."""
    rows: list[list[str]] = []
    for name, values in found.metrics.items():
        if "_class_" in name and len(set(values)) == 1:
            continue
        row = [name, *map(number_or_dash, values)]
        if len(values) == 2:
            first, second = values
            row.append("" if first is None or second is None else signed(second - first))
            paired = found.paired[0].get(name) if found.paired else None
            interval = None if paired is None else paired.interval
            row.append("" if interval is None else f"{signed(interval.low)} to {signed(interval.high)}")
        rows.append(row)
    return rows


def as_json(found: Comparison) -> dict[str, Any]:
    """The same for scripts."""
    differences = [
        {
            name: {
                "difference": each.value,
                "low": None if each.interval is None else each.interval.low,
                "high": None if each.interval is None else each.interval.high,
            }
            for name, each in paired.items()
        }
        for paired in found.paired
    ]
    return {
        "runs": [
            {
                "id": run.facts.id,
                "pipeline": run.facts.pipeline,
                "status": run.facts.status,
                "seconds": run.facts.seconds,
                "step_seconds": run.step_seconds,
                "cost": None,
            }
            for run in found.runs
        ],
        "settings": found.settings,
        "metrics": found.metrics,
        "paired": differences,
        "data": found.data,
        "data_not_comparable": found.data_not_comparable,
        "same_code": found.same_code,
    }


def write_page(page: str, output: Path) -> None:
    """Write a page.

    Raises:
        UserError: the file's name is no page's, or it cannot be written.
    """
    if output.suffix not in (".html", ".htm"):
        raise UserError(f"{output}: a page is written as .html.")
    write_text(output, page)


def _text(value: Any) -> str:
    return "–" if value is None else str(value)
