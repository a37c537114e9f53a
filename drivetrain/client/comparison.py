"""The differences between runs, as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drivetrain.client.frames import frame, table, value_text

if TYPE_CHECKING:
    from drivetrain.telling.content.comparison import Comparison as Facts


class Comparison:
    """The differences between runs. A value that a run does not have is None; tuples are in the order of `runs`."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids."""
        return tuple(run.facts.id for run in self._facts.runs)

    @property
    def settings(self) -> dict[str, tuple[Any, ...]]:
        """Setting, parameter or `STEP.SETTING` -> its value in each run, of those that are not the same in all."""
        return self._facts.settings

    @property
    def metrics(self) -> dict[str, tuple[float | None, ...]]:
        """Metric -> its value in each run."""
        return self._facts.metrics

    @property
    def intervals(self) -> dict[str, tuple[tuple[float, float] | None, ...]]:
        """Metric -> of each run but the first, the 95 % interval of its difference to the first, where both were
        evaluated on the same test set."""
        paired = self._facts.paired
        names = dict.fromkeys(name for each in paired for name in each)
        found: dict[str, tuple[tuple[float, float] | None, ...]] = {}
        for name in names:
            intervals = [each[name].interval if name in each else None for each in paired]
            found[name] = tuple(None if one is None else (one.low, one.high) for one in intervals)
        return found

    @property
    def data(self) -> dict[str, tuple[str | None, ...]]:
        """`STEP.INPUT` -> the hash of what each run read, of inputs whose content is not the same in all."""
        return self._facts.data

    @property
    def data_not_comparable(self) -> tuple[str, ...]:
        """`STEP.INPUT` of inputs that cannot be compared: a run lacks it, or read an archive where another run read the
        files."""
        return self._facts.data_not_comparable

    @property
    def same_code(self) -> bool | None:
        """True if the programs of all runs had the same code, False if some differ; else None, if a run does not say
        what it had."""
        return self._facts.same_code

    def to_frame(self) -> Any:
        """A data frame with a row a run and a column for each setting that differs and each metric.

        Raises:
            UserError: neither pandas nor Polars is installed.
        """
        return frame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        columns: dict[str, tuple[Any, ...]] = {**self.settings, **self.metrics}
        return [
            {"run": run.facts.id, "status": run.facts.status, "seconds": round(run.facts.seconds, 1)}
            | {name: values[number] for name, values in columns.items()}
            for number, run in enumerate(self._facts.runs)
        ]

    def __repr__(self) -> str:
        lines = [f"runs: {', '.join(self.runs)}"]
        for name, values in {**self.settings, **self.metrics}.items():
            lines.append(f"{name}: {', '.join(map(value_text, values))}")
        if self.same_code is not True:
            lines.append(f"code: {'not comparable' if self.same_code is None else 'differs'}")
        lines += [f"data of {name}: differs" for name in self.data]
        lines += [f"data of {name}: not comparable" for name in self.data_not_comparable]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self._rows()
        names = [name for name in rows[0] if name != "run"]
        return table([{"": name, **{str(row["run"]): row[name] for row in rows}} for name in names])
