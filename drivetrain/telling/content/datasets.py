"""The data sets among what the steps of a run wrote: their manifests, read within bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from drivetrain.base.json_text import as_list, as_object, list_in, object_in
from drivetrain.telling.content.untrusted_json import UnreadableError, finite, objects, read_object, text, whole

MANIFEST_FILE = "manifest.json"
MAX_BYTES, MAX_COLUMNS, MAX_BINS, MAX_GROUPS = 16 << 20, 100, 64, 20
MAX_KEPT = 32


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column over all rows of a data set; None where nothing is known. `bins` are rows from the least value to the
    greatest."""

    name: str
    type: str
    nulls: int | None
    distinct: int | None
    low: float | str | None
    mean: float | None
    high: float | str | None
    bins: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """A folder with a manifest, which a step wrote."""

    step: str
    name: str
    rows: int
    bytes: int
    shards: int
    content: str
    source: str
    """The origin of a copied table, with its version."""
    leaked_rows: int | None
    """Rows that train has, too; None where it was not looked."""
    leaked_values: Mapping[str, int]
    """Group -> its values that train has, too."""
    columns: tuple[ColumnFacts, ...]

    @property
    def leaks(self) -> bool:
        return bool(self.leaked_rows or any(self.leaked_values.values()))


def read_dataset(step: str, folder: Path) -> DatasetFacts | None:
    """Read a folder's manifest; None if it is not ours."""
    try:
        found = (folder / MANIFEST_FILE).stat()
    except OSError:
        return None
    return _read(step, folder, found.st_ino, found.st_size, found.st_ctime_ns)


@lru_cache(MAX_KEPT)
def _read(step: str, folder: Path, *_: int) -> DatasetFacts | None:
    """(Numbers that change with the file: the page of a run that goes on is made every second.)"""
    try:
        found = read_object(folder / MANIFEST_FILE, MAX_BYTES)
    except UnreadableError:
        return None  # another program's file of this name
    if found is None or not found.get("content_hash") or whole(found.get("rows")) is None:
        return None
    leakage, source = object_in(found, "leakage"), as_object(object_in(found, "lineage").get("source"))
    values = {name: whole(number) or 0 for name, number in list(object_in(leakage, "groups").items())[:MAX_GROUPS]}
    return DatasetFacts(
        step=step,
        name=folder.name,
        rows=whole(found.get("rows")) or 0,
        bytes=whole(found.get("bytes")) or 0,
        shards=len(list_in(found, "shards")),
        content=text(found.get("content_hash"))[:12],
        source=" ".join(filter(None, (text(source.get("address")), text(source.get("version"))))),
        leaked_rows=whole(leakage.get("rows")),
        leaked_values=values,
        columns=tuple(_columns(found)),
    )


def _columns(found: Mapping[str, Any]) -> Iterator[ColumnFacts]:
    statistics = object_in(found, "statistics")
    for entry in objects(found.get("schema"), MAX_COLUMNS):
        name = text(entry.get("name"))
        known = as_object(statistics.get(str(entry.get("name"))))
        bins = as_list(object_in(known, "histogram").get("rows"))[:MAX_BINS]
        yield ColumnFacts(
            name=name,
            type=text(entry.get("type")),
            nulls=whole(known.get("nulls")),
            distinct=whole(known.get("distinct")),
            low=_end(known.get("min")),
            mean=finite(known.get("mean")),
            high=_end(known.get("max")),
            bins=tuple(whole(rows) or 0 for rows in bins),
        )


def _end(value: object) -> float | str | None:
    if isinstance(value, str):
        return text(value)
    number = finite(value)
    return int(number) if isinstance(value, int) and number is not None else number
