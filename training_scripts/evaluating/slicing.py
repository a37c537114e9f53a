"""Which values the columns have by which an evaluation is sliced: those that the data's manifest lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.training_scripts.data.dataset import Dataset
from drivetrain.training_scripts.errors import InputError


def slice_values(dataset: Dataset, columns: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Column -> its values, in their order.

    Raises:
        InputError: a column of which no values are listed.
    """
    known: Mapping[str, Any] = dataset.reader.statistics
    found: dict[str, tuple[Any, ...]] = {}
    for name in columns:
        listed = known.get(name, {}).get("values") if isinstance(known.get(name), Mapping) else None
        if listed is None:
            can = sorted(other for other, entry in known.items() if isinstance(entry, Mapping) and "values" in entry)
            raise InputError(
                f"slices: {dataset.reader.folder} lists no values of column {name!r}. A column that slices has whole "
                "numbers, bools or text, and at most 256 values; data that was prepared by an earlier version has to "
                f"be prepared again. Columns that can: {', '.join(can[:20]) or 'none'}."
            )
        found[name] = tuple(entry["value"] for entry in listed)
    return found
