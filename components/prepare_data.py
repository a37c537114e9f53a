"""Split a table into train, validation and test sets, as Parquet shards with a manifest.

    python -m drivetrain.components.prepare_data --raw data/ --train out/train --validation out/validation \\
        --test out/test --key id --label label

The program is here; the files of drivetrain/data/ are what it is made of.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drivetrain.base.errors import InputError
from drivetrain.steps.contract import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.arrow import Array, Batch
    from drivetrain.data.reading import Table
    from drivetrain.data.shards import ShardWriter

# What a full disk, an exceeded quota and a file-size limit say.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@component(needs=("pyarrow",))
def prepare_data(
    raw: Input,
    train: Output,
    validation: Output,
    test: Output,
    *,
    key: str,
    label: str | None = None,
    schema: str | None = None,
    extra_columns: Literal["refuse", "keep", "drop"] = "refuse",
    validation_percent: int = 10,
    test_percent: int = 10,
    salt: str = "",
    rows_per_shard: int = 1_000_000,
    delimiter: str = ",",
) -> None:
    """Split a table into train, validation and test sets, as Parquet shards with a manifest.

    A row's side is decided by a hash of its key alone (data/split.py), so it never changes sides when data grows.
    Rows keep their order: files sorted by name, then the order in the file. The files may be of different formats;
    all must have the same columns. Types that are not given are inferred from all rows: int64, float64, bool or text.
    In a CSV file an empty cell is null, and so are NA, NaN, null and None in a column of numbers.
    The sets of an earlier run are replaced when the new ones are complete. The disk needs room for both.

    Args:
        raw: a folder of CSV, JSON Lines (both also gzipped) and Parquet files, or one such file.
        train: gets the train set: part-00000.parquet, ... and manifest.json.
        validation: gets the validation set.
        test: gets the test set.
        key: the column that names a row: integers or text, never null, each value once. 7 and "7" are the same key.
        label: the column to predict; integers, bools and text name classes, floats are a quantity.
        schema: types as "column:type,..." with Arrow's type names; a column may be a pattern, as in
            "id:int64,p*:float32". A longer one goes into schema.json beside the data.
        extra_columns: what to do with columns that the schema does not name.
        validation_percent: the percentage of keys in the validation set; 0 leaves it empty.
        test_percent: the percentage of keys in the test set; 0 leaves it empty.
        salt: changes which keys fall on which side.
        rows_per_shard: rows of each Parquet file but the last.
        delimiter: what separates the cells of a CSV file; one character, or tab.

    Raises:
        InputError: the data or a parameter is wrong; file, row and column are named. The outputs stay as they were.
    """
    from drivetrain.data.reading import TableOptions, open_table
    from drivetrain.data.shards import ShardWriter
    from drivetrain.data.source import CellError

    folders = {"train": train, "validation": validation, "test": test}
    _check_parameters(validation_percent, test_percent, rows_per_shard)
    _check_folders(raw, folders)
    options = TableOptions(key=key, label=label, schema=schema, extra_columns=extra_columns, delimiter=delimiter)

    def attempt(table: Table) -> None:
        writers = {
            side: ShardWriter(folder, table.schema, key=key, label=label, rows_per_shard=rows_per_shard)
            for side, folder in folders.items()
        }
        try:
            for writer in writers.values():
                writer.start()
            _write(table, writers, key, label, salt, validation_percent, test_percent)
        except OSError as error:
            if error.errno in _NO_SPACE:
                # Its room is free again before the message counts what is free.
                for writer in writers.values():
                    writer.discard()
                raise _no_space(folders["train"], error) from error
            raise
        finally:
            for writer in writers.values():
                writer.discard()

    table = open_table(raw, options, whole=False)
    try:
        attempt(table)
    except CellError:
        if table.is_typed_by_files:
            raise
        # The first rows of each file do not tell the types of all.
        attempt(open_table(raw, options, whole=True))


def _write(
    table: Table,
    writers: dict[str, ShardWriter],
    key: str,
    label: str | None,
    salt: str,
    validation_percent: int,
    test_percent: int,
) -> None:
    """Deal the rows out, check what can only be known of all of them, and replace what an earlier run wrote."""
    from drivetrain.data.arrow import arrow
    from drivetrain.data.checks import check_classes, check_distinct_keys, check_present, check_sides
    from drivetrain.data.lanes import Lane
    from drivetrain.data.shards import publish
    from drivetrain.data.split import RepeatedHashes, below, key_hashes

    compute = arrow().compute
    repeated = RepeatedHashes()

    def deal(batch: Batch, hashes: Array) -> None:
        in_test = below(hashes, test_percent)
        in_either = below(hashes, test_percent + validation_percent)
        writers["test"].append(batch.filter(in_test))
        writers["validation"].append(batch.filter(compute.and_not(in_either, in_test)))
        writers["train"].append(batch.filter(compute.invert(in_either)))

    dealing = Lane()
    try:
        for source, first, batch in table.batches():
            check_present(table, source, first, batch, "key", key)
            if label is not None:
                check_present(table, source, first, batch, "label", label)
            hashes = key_hashes(batch.column(key), salt)
            repeated.add(hashes)
            dealing.do(deal, batch, hashes)
        dealing.wait()
    finally:
        dealing.close()
    for writer in writers.values():
        writer.finish()
    check_distinct_keys(table, repeated, key, salt)
    train_percent = 100 - validation_percent - test_percent
    check_sides(writers, {"train": train_percent, "validation": validation_percent, "test": test_percent})
    if label is not None:
        check_classes(writers, label)
    manifests = {side: writer.stage() for side, writer in writers.items()}
    publish(writers.values())
    for side, manifest in manifests.items():
        shards = "1 shard" if len(manifest.shards) == 1 else f"{len(manifest.shards)} shards"
        print(
            f"{side}: {manifest.rows:,} rows, {manifest.bytes:,} bytes in {shards},",
            f"content {manifest.content_hash[:12]}",
            flush=True,
        )


def _check_parameters(validation_percent: int, test_percent: int, rows_per_shard: int) -> None:
    for name, percent in (("validation_percent", validation_percent), ("test_percent", test_percent)):
        if not 0 <= percent <= 99:
            raise InputError(f"{name} is {percent}. Allowed: 0 to 99.")
    if validation_percent + test_percent > 99:
        raise InputError(
            f"validation_percent {validation_percent} and test_percent {test_percent} leave nothing to train on. "
            "Their sum must be below 100."
        )
    if rows_per_shard < 1:
        raise InputError(f"rows_per_shard is {rows_per_shard}. Allowed: 1 and more.")


def _check_folders(raw: Path, folders: dict[str, Path]) -> None:
    """No folder may be inside another: what is written to one would be read, or removed, as a part of the other."""
    known = [("raw", raw.resolve())]
    for name, folder in folders.items():
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{name}: {folder} is a file; it must be a folder, which is made if there is none.")
        path = folder.resolve()
        for other, taken in known:
            if path.is_relative_to(taken) or taken.is_relative_to(path):
                raise InputError(f"{name}: {folder} and the folder of {other} are one, or one inside the other.")
        known.append((name, path))


def _no_space(folder: Path, error: OSError) -> InputError:
    import shutil

    free = shutil.disk_usage(folder).free
    return InputError(
        f"the disk is full: {error.strerror} while writing to {folder.parent}. What was written is removed; now "
        f"{free >> 20:,} MiB are free. Make room, or give the step a larger volume."
    )


if __name__ == "__main__":
    prepare_data.main()
