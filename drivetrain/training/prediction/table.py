"""The rows of a shard as a Parquet file: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError

ROW, KEY = "row", "key"
_OURS = (ROW, KEY, "predicted", "score")


def check_names(kept: Sequence[str]) -> None:
    """
    Raises:
        InputError: a column that is handed on would have the name of one that is written.
    """
    for name in kept:
        if name in _OURS or name.startswith("score_"):
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
