"""The data of a training in model.json: what a request has to bring, and by what other data are read as these were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.training.input_pipeline.prepared import keys_of
from drivetrain.training.reader import Reader


def name_of(reader: Reader) -> str:
    """The reader's, as the setting `reader` names it."""
    return type(reader).__module__.removeprefix("drivetrain.training_scripts.readers.")


def describe_inputs(reader: Reader, names: Sequence[str]) -> dict[str, Any]:
    """The block `inputs`: the reader's name and options, and of each column the name, numpy's type, a row's shape."""
    columns = reader.read(slice(0, 1), names)
    # (Where a tokenizer lies is no part of what it is; a model folder has its own.)
    options = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in vars(reader.options).items()
        if key not in ("fitted", "tokenizer")
    }
    described = [
        {"name": name, "dtype": columns[name].dtype.str, "shape": list(columns[name].shape[1:])} for name in names
    ]
    return {"columns": described, "reader": name_of(reader), "options": options}


def describe_data(reader: Reader, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The block `data`.

    Args:
        name, options: the reader's, by which it reads other data as this.
    """
    return {
        "content_hash": reader.content_hash,
        "rows": len(reader),
        "reader": name,
        "reader_options": dict(options),
        "fitted": dict(reader.fitted),
        # By which an evaluation knows the keys of other data again.
        **({"keys": keys} if (keys := keys_of(reader)) else {}),
    }


def statistics_of(reader: Reader, names: Sequence[str]) -> dict[str, Any]:
    """The reader's statistics of these columns, without the lists of their values."""
    known = reader.statistics
    return {name: _without_values(known[name]) for name in names if name in known}


def _without_values(known: Any) -> Any:
    return {key: entry for key, entry in known.items() if key != "values"} if isinstance(known, Mapping) else known
