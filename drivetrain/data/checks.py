"""Check the rows: each has a key and a label, keys differ, classes have rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError, warn
from drivetrain.data.arrow import Array, Batch, arrow
from drivetrain.data.convert import decimal_point, typed
from drivetrain.data.formats.csv import decimal_commas
from drivetrain.data.hash_runs import HashRuns
from drivetrain.data.increments import Earlier
from drivetrain.data.reading import Table
from drivetrain.data.shards import ShardWriter
from drivetrain.data.source import Source
from drivetrain.data.split import key_hashes

# Keys whose hashes occur twice are compared as text, so many at a time.
COMPARED_KEYS = 10_000
# Classes named in one message.
_NAMED = 5


def check_present(
    table: Table, source: Source, first: int, batch: Batch, role: str, column: str, kept: Array | None = None
) -> None:
    """Every row has a key (or label); empty text and NaN count as missing. `first` is the index of the first row of the
    batch, from which `kept` are left, where it is given."""
    pa = arrow()
    values = batch.column(column)
    missing = values.is_null(nan_is_null=True)
    if pa.types.is_string(values.type):
        missing = pa.compute.or_kleene(missing, pa.compute.equal(values, ""))
    index = pa.compute.index(missing, True).as_py()
    if index >= 0:
        index = index if kept is None else kept[index].as_py()
        advice = (
            "Every row needs one: fill it in, or take the row out."
            if role == "key"
            else "Fill it in, or take out the rows without."
        )
        raise InputError(f"{table.locate(source, first + index)}: the {role} {column!r} is missing. {advice}")


def check_distinct_keys(table: Table, hashes_of_keys: HashRuns, key: str, salt: str) -> None:
    """No key occurs twice. Two keys may share a hash, so those that do are read again and compared."""
    pa = arrow()
    for hashes in map(pa.array, hashes_of_keys.repeated()):
        for start in range(0, len(hashes), COMPARED_KEYS):
            wanted = hashes.slice(start, COMPARED_KEYS)
            seen: dict[Any, tuple[Source, int]] = {}
            for source, first, batch in table.batches([key]):
                keys = batch.column(key)
                suspects = pa.compute.is_in(key_hashes(keys, salt), value_set=wanted)
                for index in pa.compute.indices_nonzero(suspects).to_pylist():
                    value = keys[index].as_py()
                    if value in seen:
                        raise InputError(
                            f"{table.locate(source, first + index)}: the key {key!r} is {value!r}, as it is in "
                            f"{table.locate(*seen[value])}. Each row needs a key of its own: take out one of the rows, "
                            "or name a column that tells them apart."
                        )
                    seen[value] = (source, first + index)


def check_keys_are_new(table: Table, earlier: Earlier, hashes: HashRuns, key: str, salt: str) -> None:
    """No key of the new rows is in the sets of an earlier run. Keys of equal hashes are compared."""
    pa = arrow()
    suspects = earlier.check_new_keys(hashes)
    for start in range(0, len(suspects), COMPARED_KEYS):
        wanted = suspects.slice(start, COMPARED_KEYS)
        known: dict[str, str] = {}
        for side, found in earlier.sets.items():
            for shard in found.manifest.shards:
                path = found.folder / shard.name
                column = pa.parquet.read_table(path, columns=[key]).column(0).combine_chunks()
                chosen = column.filter(pa.compute.is_in(key_hashes(column, salt), value_set=wanted))
                known |= {str(value): f"{side}/{path.name}" for value in chosen.to_pylist()}
        for source, first, batch in table.batches([key]):
            keys = batch.column(key)
            same = pa.compute.is_in(key_hashes(keys, salt), value_set=wanted)
            for index in pa.compute.indices_nonzero(same).to_pylist():
                value = keys[index].as_py()
                if str(value) in known:
                    raise InputError(
                        f"{table.locate(source, first + index)}: the key {key!r} is {value!r}, as it is in the earlier "
                        f"{known[str(value)]}. Each row needs a key of its own: take out one of the rows, or leave out "
                        "previous where the earlier row is to be replaced."
                    )


def warn_of_decimal_commas(table: Table) -> None:
    """Tell that numbers with decimal commas are text; by the first CSV file, of columns whose type was not given."""
    pa = arrow()
    texts = [field.name for field in table.schema if pa.types.is_string(field.type) and field.name in table.inferred]
    for source, written in zip(table.sources, table.written, strict=True):
        names = [name for name in texts if name in written.names]
        if source.format == "csv" and names:
            for name, (index, cell) in decimal_commas(source, names).items():
                warn(f"{table.locate(source, index)}, column {name!r} is read as text: {decimal_point(cell)}")
            return


def check_classes(writers: Mapping[str, ShardWriter], label: str, split_kind: str) -> None:
    """Every class is in train. One that another side lacks is only said: its quality will not be measured there."""
    counts = {side: writer.statistics.classes for side, writer in writers.items()}
    classes = sorted({value for found in counts.values() for value in found})
    untrained = [value for value in classes if value not in counts["train"]]
    if untrained:
        rows = ", ".join(f"{found[untrained[0]]} in {side}" for side, found in counts.items() if untrained[0] in found)
        others = f" (and {len(untrained) - 1} more such classes)" if len(untrained) > 1 else ""
        raise InputError(
            f"label {label!r}: class {untrained[0]!r} has no row in train, but {rows}{others}. Add rows of it, take it "
            f"out, or choose another salt. If the label is a quantity, give it a float type: {typed(label, 'float64')}."
        )
    for side, found in counts.items():
        absent = [value for value in classes if value not in found]
        if absent and writers[side].rows:
            named = ", ".join(repr(value) for value in absent[:_NAMED]) + (", ..." if len(absent) > _NAMED else "")
            advice = f". With split_by=strata:{label} each side has its share" if split_kind == "key" else ""
            warn(f"{side} has no row of {len(absent)} of {len(classes)} classes: {named}{advice}")
