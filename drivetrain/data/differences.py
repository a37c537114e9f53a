"""The differences between two data sets: rows added, removed and changed by key.

Rows are compared by hashes of 64 bits, in ranges of their keys' hashes that lie on the disk in between: memory does not
grow with the rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, arrow, numpy
from drivetrain.data.hash_runs import Scratch
from drivetrain.data.leakage import row_hashes, value_hashes
from drivetrain.data.manifest import Manifest

# Rows of a set whose hashes are in memory at a time.
PART_ROWS = 1 << 20


@dataclass(frozen=True)
class RowDifferences:
    """Numbers of rows, and some of their keys by `added`, `removed` and `changed`."""

    added: int
    removed: int
    changed: int
    equal: int
    keys: Mapping[str, Sequence[Any]]


def compare_rows(first: Path, second: Path, *, examples: int = 5) -> RowDifferences:
    """Compare the rows of two sets by the values of the columns that both have.

    Args:
        first: the folder of the earlier set.
        second: that of the later one.
        examples: keys of each kind that are returned.

    Raises:
        InputError: a set is missing or damaged, or has no key, or they have different ones.
    """
    np = numpy()
    manifests = [Manifest.read(folder, checksums=False) for folder in (first, second)]
    key = manifests[0].key
    if key is None or manifests[1].key != key:
        names = " and ".join(repr(manifest.key) for manifest in manifests)
        raise InputError(f"rows are compared by key, and the keys are {names}. Give two sets with one key.")
    types = [{column.name: column.type for column in manifest.schema} for manifest in manifests]
    columns = [name for name in types[0] if name != key and types[0][name] == types[1].get(name)]
    parts = -(-max(1, *(manifest.rows for manifest in manifests)) // PART_ROWS)
    counts, found = [0, 0, 0, 0], {"added": [np.empty(0, "<u8")], "removed": [np.empty(0, "<u8")], "changed": []}
    with tempfile.TemporaryDirectory(prefix="drivetrain-diff-") as folder:
        before, after = (
            _dealt(_batches(place, manifest, [key, *columns]), key, columns, parts, Path(folder))
            for place, manifest in zip((first, second), manifests, strict=True)
        )
        for one, other in zip(before, after, strict=True):
            places = np.minimum(np.searchsorted(one[:, 0], other[:, 0]), max(len(one) - 1, 0))
            known = one[places, 0] == other[:, 0] if len(one) else np.zeros(len(other), bool)
            changed = known.copy()
            changed[known] = one[places[known], 1] != other[known, 1]
            gone = ~np.isin(one[:, 0], other[:, 0])
            kinds = {"added": other[~known, 0], "removed": one[gone, 0], "changed": other[changed, 0]}
            for number, (kind, hashes) in enumerate(kinds.items()):
                counts[number] += len(hashes)
                found[kind].append(hashes[:examples])
            counts[3] += int(known.sum() - changed.sum())
    keys: dict[str, Sequence[Any]] = {}
    for kind, each in found.items():
        place, manifest = (first, manifests[0]) if kind == "removed" else (second, manifests[1])
        keys[kind] = _keys(_batches(place, manifest, [key]), np.concatenate(each)[:examples])
    return RowDifferences(*counts, keys=keys)


def first_rows(folder: Path, rows: int = 5) -> list[dict[str, Any]]:
    """The first rows of a set, by column."""
    manifest = Manifest.read(folder, checksums=False)
    batch = next(_batches(folder, manifest, [column.name for column in manifest.schema]), None)
    return [] if batch is None else batch.slice(0, rows).to_pylist()


def _batches(folder: Path, manifest: Manifest, columns: Sequence[str]) -> Iterator[Batch]:
    for shard in manifest.shards:
        with arrow().parquet.ParquetFile(folder / shard.file) as file:
            yield from file.iter_batches(columns=list(columns))


def _key_hashes(column: Array) -> Any:
    """Hashes of keys as text: 7 and "7" are the same key."""
    return value_hashes(column.cast(arrow().string()))


def _dealt(batches: Iterator[Batch], key: str, columns: Sequence[str], parts: int, folder: Path) -> Iterator[Any]:
    """The hashes of keys and of rows, uint64 [rows, 2], one range of the keys' hashes after the other, sorted."""
    np = numpy()
    files, sizes = [Scratch(folder) for _ in range(parts)], [0] * parts
    for batch in batches:
        keys = _key_hashes(batch.column(key))
        rows = row_hashes([value_hashes(batch.column(name)) for name in columns], batch.num_rows)
        pairs = np.stack([keys, rows], axis=1)
        parts_of = (keys >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
        for part in range(parts):
            chosen = np.ascontiguousarray(pairs[parts_of == part])
            if len(chosen):
                files[part].append(chosen)
                sizes[part] += chosen.size
    for file, size in zip(files, sizes, strict=True):
        pairs = (file.read(0, size) if size else np.empty(0, "<u8")).reshape(-1, 2)
        yield pairs[np.argsort(pairs[:, 0], kind="stable")]
        file.close()


def _keys(batches: Iterator[Batch], hashes: Any) -> list[Any]:
    """The keys that have these hashes."""
    np = numpy()
    found: list[Any] = []
    for batch in batches:
        if len(found) >= len(hashes):
            break
        column = batch.column(0)
        found += column.filter(arrow().array(np.isin(_key_hashes(column), hashes))).to_pylist()
    return found
