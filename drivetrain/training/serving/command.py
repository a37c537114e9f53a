"""Predict the rows of a file from a shell: `python code/inference.py --input rows.csv --output predictions.parquet`.

Formats go by the endings: .csv, .json, .jsonl, .npy, and .parquet where pyarrow is installed. Without --output there is
a JSON object a line on the standard output. Bad input ends it with exit code 2 and one line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import BAD_INPUT, InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.serving.inputs import Inputs
from drivetrain.training.serving.predictions import Predictions
from drivetrain.training.serving.request import CSV, JSON, JSON_LINES, NPY, Table, columns_from, table_of
from drivetrain.training.serving.response import body_of, csv_text, named_columns, objects

PARQUET = ".parquet"
TYPES = {".csv": CSV, ".json": JSON, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".npy": NPY}


def main(folder: Path, load: Callable[[Path], Any], arguments: Sequence[str] | None = None) -> int:
    """The exit code.

    Args:
        load: makes the `ServedModel` of a folder.
    """
    parser = argparse.ArgumentParser(prog="inference.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--input", type=Path, required=True, help="rows: .csv, .json, .jsonl, .npy, .parquet")
    parser.add_argument("--output", type=Path, help="where to write the answers; the standard output without it")
    parser.add_argument("--keep", default="", help="columns of the input to hand on, with commas: id,site")
    given = parser.parse_args(arguments)
    try:
        _check_endings(given.input, given.output)
        model = load(folder)
        table = read_table(given.input, model.inputs)
        kept = _kept([name.strip() for name in given.keep.split(",") if name.strip()], table, given.input)
        try:
            predictions = model.predict(columns_from(table, model.inputs))
        except InputError as error:
            raise InputError(f"{given.input}: {error}") from None
        write(given.output, predictions, kept)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def read_table(path: Path, inputs: Inputs) -> Table:
    """The values of a file by name.

    Raises:
        InputError: naming the file: it cannot be read, or is not what its ending says.
    """
    try:
        if path.suffix.lower() == PARQUET:
            return _parquet_table(path)
        return table_of(path.read_bytes(), TYPES[path.suffix.lower()], inputs)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write(path: Path | None, predictions: Predictions, kept: dict[str, list[Any]]) -> None:
    """The answers, all of them or nothing.

    Raises:
        InputError: the file cannot be written, or an answer is not finite.
    """
    ending = ".jsonl" if path is None else path.suffix.lower()
    content = _content(ending, predictions, kept)
    if path is None:
        sys.stdout.write(content if isinstance(content, str) else content.decode())
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        partial.unlink(missing_ok=True)


def _content(ending: str, predictions: Predictions, kept: dict[str, list[Any]]) -> str | bytes:
    body, _ = body_of(predictions, TYPES.get(ending, JSON_LINES))  # (which also refuses what is not finite)
    if ending in (".json", ".jsonl", ".ndjson"):
        rows = [dict(zip(kept, values, strict=True)) for values in zip(*kept.values(), strict=True)]
        rows = rows or [{} for _ in range(len(predictions))]
        merged = [row | answer for row, answer in zip(rows, objects(predictions), strict=True)]
        if ending == ".json":
            return json.dumps({"predictions": merged}) + "\n"
        return "".join(f"{json.dumps(row)}\n" for row in merged)
    columns = {name: _column(values) for name, values in kept.items()} | named_columns(predictions)
    if ending == ".csv":
        return csv_text(columns, header=True)
    return _parquet_bytes(columns) if ending == PARQUET else body


def _check_endings(source: Path, target: Path | None) -> None:
    allowed = [*TYPES, PARQUET]
    for path in (source, target):
        if path is not None and path.suffix.lower() not in allowed:
            raise InputError(f"{path}: its ending says no format. Allowed: {', '.join(allowed)}.")
    if not source.is_file():
        raise InputError(f"{source}: there is no such file.")
    if target is not None and target.exists() and target.samefile(source):
        raise InputError(f"{target} is the input: the answers would replace its rows. Give --output another place.")
    if target is not None and not target.absolute().parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.absolute().parent}. Make it, or give another place.")


def _kept(names: Sequence[str], table: Table, source: Path) -> dict[str, list[Any]]:
    for name in names:
        if name not in table:
            raise unknown_name("column", name, table, advice=f"({source})")
    return {name: np.asarray(table[name], dtype=object).tolist() for name in names}


def _column(values: list[Any]) -> NDArray[Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet is read and written with pyarrow, which is not installed. Use .jsonl.") from None
    return pyarrow


def _parquet_table(path: Path) -> Table:
    arrow = _arrow()
    try:
        table = arrow.parquet.read_table(path)
    except arrow.ArrowException as error:
        raise InputError(f"it cannot be read as Parquet ({str(error).splitlines()[0]}).") from None
    return {
        name: column.to_pylist() if column.null_count or arrow.types.is_nested(column.type) else column.to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _parquet_bytes(columns: dict[str, NDArray[Any]]) -> bytes:
    arrow = _arrow()
    arrays = {
        name: arrow.array(values.tolist() if values.ndim > 1 or values.dtype.kind == "O" else values)
        for name, values in columns.items()
    }
    sink = arrow.BufferOutputStream()
    arrow.parquet.write_table(arrow.table(arrays), sink)
    return sink.getvalue().to_pybytes()
