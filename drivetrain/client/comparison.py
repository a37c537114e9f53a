"""What differs between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivetrain.client.frames import frame, table, value_text


@dataclass(frozen=True)
class Side:
    """What is compared of one run: `settings` are those of its steps too, `data` is `STEP.INPUT` -> hash."""

    id: str
    status: str
    seconds: float
    settings: Mapping[str, Any]
    metrics: Mapping[str, float]
    data: Mapping[str, str]
    code_hash: str


class Comparison:
    """What differs between runs. A value that a run does not have is None."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = tuple(sides)

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids, in the order of all that is given here."""
        return tuple(side.id for side in self._sides)

    @property
    def settings(self) -> dict[str, tuple[Any, ...]]:
        """Setting, parameter or `STEP.SETTING` -> its value in each run, of those that are not the same in all."""
        return _differing([side.settings for side in self._sides])

    @property
    def metrics(self) -> dict[str, tuple[float | None, ...]]:
        """Metric -> its value in each run."""
        names = dict.fromkeys(name for side in self._sides for name in side.metrics)
        return {name: tuple(side.metrics.get(name) for side in self._sides) for name in names}

    @property
    def data(self) -> dict[str, tuple[str | None, ...]]:
        """`STEP.INPUT` -> the hash of what each run read, of inputs that are not the same in all."""
        return _differing([side.data for side in self._sides])

    @property
    def same_code(self) -> bool:
        """Whether the programs of all runs had the same code."""
        return len({side.code_hash for side in self._sides}) == 1

    def to_frame(self) -> Any:
        """A data frame with a row a run and a column for each setting that differs and each metric.

        Raises:
            UserError: neither pandas nor Polars is installed.
        """
        return frame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        columns: dict[str, tuple[Any, ...]] = {**self.settings, **self.metrics}
        return [
            {"run": side.id, "status": side.status, "seconds": round(side.seconds, 1)}
            | {name: values[number] for name, values in columns.items()}
            for number, side in enumerate(self._sides)
        ]

    def __repr__(self) -> str:
        lines = [f"runs: {', '.join(self.runs)}"]
        for name, values in {**self.settings, **self.metrics}.items():
            lines.append(f"{name}: {', '.join(map(value_text, values))}")
        if not self.same_code:
            lines.append("code: differs")
        lines += [f"data of {name}: differs" for name in self.data]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self._rows()
        names = [name for name in rows[0] if name != "run"]
        return table([{"": name, **{str(row["run"]): row[name] for row in rows}} for name in names])


def _differing(every: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = dict.fromkeys(name for values in every for name in values)
    found = {name: tuple(values.get(name) for values in every) for name in names}
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}
