"""The writing of a table of answers: its columns, and a Parquet file whose bytes depend on the rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.answers import KEY, MARGIN, PREDICTED, ROW, SCORE
from drivetrain.training.calibration import COSTS, Calibration
from drivetrain.training.outputs import answer_columns
from drivetrain.training.task import Task

_OURS = (ROW, KEY, PREDICTED, SCORE, MARGIN)


def check_names(kept: Sequence[str]) -> None:
    """
    Raises:
        InputError: a column that is handed on would have the name of one that is written.
    """
    for name in kept:
        if name in _OURS or name.startswith((f"{SCORE}_", f"{MARGIN}_")):
            raise InputError(f"keep names {name!r}, which a column of the predictions is called. Leave it out.")


def parquet(columns: Mapping[str, NDArray[Any]]) -> tuple[bytes, dict[str, str]]:
    """The file, and the types of its columns by name.

    Args:
        columns: shape [rows] each; of shape [rows, ...] they become lists of one length.

    Raises:
        InputError: the values of a column have no common type.
    """
    import pyarrow as pa
    import pyarrow.parquet as writer

    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        try:
            arrays[name] = arrow_array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InputError(f"column {name!r} cannot be written: {str(error).splitlines()[0]}.") from None
    table = pa.table(arrays)
    sink = pa.BufferOutputStream()
    writer.write_table(
        table,
        sink,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=1,
        row_group_size=max(1, table.num_rows),
    )
    return sink.getvalue().to_pybytes(), {field.name: str(field.type) for field in table.schema}


def arrow_array(values: NDArray[Any]) -> Any:
    """A column of Parquet, values of shape [rows, ...] as lists of one length."""
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values.tolist() if values.dtype.kind == "O" else np.ascontiguousarray(values))
    flat = np.ascontiguousarray(values).reshape(len(values), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])


def table_columns(
    task: Task, predicted: NDArray[Any] | None, scores: NDArray[Any] | None, margins: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """The answers of n samples as columns; shapes are those of `Samples`. Raw scores are margins alone."""
    return answer_columns(task, predicted, None if task.ranked_by == "raw scores" else scores, margins)


def described_task(task: Task, calibration: Calibration | None = None) -> dict[str, Any]:
    """The task of a table's answers, as plain JSON values: what `read_table` needs to know.

    Args:
        calibration: that of the model; its costs are handed on.
    """
    threshold: dict[str, Any] = {"threshold": task.threshold} if task.kind == "binary" else {}
    if calibration is not None and calibration.costs is not None:
        threshold["costs"] = dict(zip(COSTS, calibration.costs, strict=True))
    return {
        "kind": task.kind,
        "num_classes": task.num_classes,
        "class_names": list(task.class_names),
        "ranked_by": task.ranked_by,
        **threshold,
    }
