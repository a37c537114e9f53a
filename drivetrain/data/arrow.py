"""pyarrow and numpy, imported when a program first needs them.

pyarrow ships no types, so it is `Any` to the type checker, and numpy's arrays come out of it; what crosses a function's
border is named by the aliases below.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
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
    found = required("pyarrow", "data", "prepare_data needs pyarrow", _import_with_jemalloc)
    for part in ("compute", "csv", "json", "parquet"):
        importlib.import_module(f"pyarrow.{part}")
    return found


def _import_with_jemalloc(name: str) -> Any:
    """Have Arrow take its memory from jemalloc, if nobody chose otherwise and its build has it (on Linux).

    Its usual allocator gives back what the next batch needs again, and the system clears each page before it gives it
    out: an eighth of the CPU time of preparing a table. Memory of the C library would grow with the data. Arrow
    reads this variable once, when it is first imported.
    """
    if name in sys.modules or "ARROW_DEFAULT_MEMORY_POOL" in os.environ or not sys.platform.startswith("linux"):
        return importlib.import_module(name)
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "jemalloc"
    try:
        return importlib.import_module(name)
    finally:
        del os.environ["ARROW_DEFAULT_MEMORY_POOL"]


@functools.cache
def numpy() -> Any:
    """The numpy module.

    Raises:
        InputError: it is not installed.
    """
    return required("numpy", "data", "numpy is needed here")


def required(module: str, extra: str, why: str = "", load: Callable[[str], Any] = importlib.import_module) -> Any:
    """A module of a package that one of our extras brings.

    Raises:
        InputError: it is not installed; `why` begins the message.
    """
    package = module.partition(".")[0]
    try:
        return load(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        why = why or f"{package} is not installed"
        raise InputError(f"{why}: python -m pip install 'drivetrain[{extra}]'.") from None


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
