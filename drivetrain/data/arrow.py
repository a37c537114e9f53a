"""pyarrow and numpy, imported when a program first needs them.

pyarrow ships no types, so it is `Any` to the type checker, and numpy's arrays come out of it; what crosses a function's
border is named by the aliases below.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

from drivetrain.base.errors import InputError

# pyarrow.Array, pyarrow.RecordBatch, pyarrow.Schema, pyarrow.DataType.
Array = Any
Batch = Any
Schema = Any
DataType = Any


@functools.cache  # asked for at every column of every batch
def arrow() -> Any:
    """The pyarrow module, with its compute, csv, json and parquet parts.

    Raises:
        InputError: it is not installed.
    """
    try:
        if "pyarrow" not in sys.modules:
            _import_with_jemalloc()
        for part in ("compute", "csv", "json", "parquet"):
            importlib.import_module(f"pyarrow.{part}")
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise InputError("prepare_data needs pyarrow: python -m pip install 'drivetrain[data]'.") from None


def _import_with_jemalloc() -> None:
    """Have Arrow take its memory from jemalloc, if nobody chose otherwise and its build has it (on Linux).

    Its usual allocator gives back what the next batch needs again, and the system clears each page before it gives it
    out: an eighth of the CPU time of preparing a table. Memory of the C library would grow with the data. Arrow
    reads this variable once, when it is first imported.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ or not sys.platform.startswith("linux"):
        importlib.import_module("pyarrow")
        return
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "jemalloc"
    try:
        importlib.import_module("pyarrow")
    finally:
        del os.environ["ARROW_DEFAULT_MEMORY_POOL"]


@functools.cache
def numpy() -> Any:
    """The numpy module.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module("numpy")
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise InputError("numpy is needed here: python -m pip install 'drivetrain[data]'.") from None


def plain_type(data_type: DataType) -> DataType:
    """The type without what only describes its storage: categories as their values, large text as text, ..."""
    pa = arrow()
    kinds = pa.types
    if kinds.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if kinds.is_large_string(data_type) or kinds.is_string_view(data_type):
        return pa.string()
    if kinds.is_large_binary(data_type) or kinds.is_binary_view(data_type):
        return pa.binary()
    return data_type


def plain_schema(schema: Schema) -> Schema:
    """Without metadata, and without what only describes storage (large text, categories)."""
    return arrow().schema([(field.name, plain_type(field.type)) for field in schema])
