"""The identity of predictions: the model, the data, and what decides the bits of an answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.training.prediction.settings import Settings

Identity = Mapping[str, Any]
"""Plain JSON values."""
_SHOWN = 12
# 2: with margins.
_COLUMNS = 2
# Options of readers that say how data is held, and change nothing of it.
_MERELY_HOW = ("held_mib", "shuffle_window")


def identity_of(
    model_hash: str,
    data_hash: str,
    rows: int,
    key: str | None,
    reader: Mapping[str, Any],
    settings: Settings,
    device: str,
    version: tuple[str, str],
) -> Identity:
    """
    Args:
        reader: the options that the data was read with.
        device: cpu or cuda: the two round differently.
        version: the name and the version of what computes, for the same reason.
    """
    return {
        "model": model_hash,
        "data": data_hash,
        "rows": rows,
        "key": key,
        "reader": {name: value for name, value in reader.items() if name not in _MERELY_HOW},
        "batch_size": settings.batch_size,
        "rows_per_shard": settings.shard_rows,
        "threads": settings.threads,
        "keep": settings.columns,
        "columns": _COLUMNS,
        "strategy": settings.strategy,
        "strategy_options": json.loads(settings.strategy_options),
        "device": device,
        version[0]: version[1].partition("+")[0],
    }


def difference(one: Identity, other: Identity) -> str:
    """The differences of two identities, in words; empty if they are equal."""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return ", ".join(f"{name} {_short(one.get(name))} instead of {_short(other.get(name))}" for name in names)


def _short(value: object) -> str:
    return value[:_SHOWN] if isinstance(value, str) and len(value) == 64 else json.dumps(value)


def model_hash(folder: Path) -> str:
    """The name of a model's content, as drivetrain.registry.content_hash gives it to a folder."""
    files = {str(path.relative_to(folder).as_posix()): path for path in folder.rglob("*") if path.is_file()}
    sums = sorted((name, _sha256(path)) for name, path in files.items())
    return hashlib.sha256(json.dumps(sums, separators=(",", ":")).encode("ascii")).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
