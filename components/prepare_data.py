"""Split a table into train, validation and test sets, as Parquet shards with a manifest.

    python -m drivetrain.components.prepare_data --raw data/ --train out/train --validation out/validation \\
        --test out/test --key id --label label

The program is here; the files of drivetrain/data/ are what it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drivetrain.base.errors import InputError, warn
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.arrow import Array, Batch
    from drivetrain.data.fitting import Fitting
    from drivetrain.data.hash_runs import Scratch
    from drivetrain.data.increments import Earlier
    from drivetrain.data.leakage import Leakage
    from drivetrain.data.reading import Table
    from drivetrain.data.row_rules.applying import RowRuling
    from drivetrain.data.shards import ShardWriter
    from drivetrain.data.sides import Split
    from drivetrain.data.source import Source


@component(needs=("numpy", "pyarrow"))
def prepare_data(
    raw: Input,
    train: Output,
    validation: Output,
    test: Output,
    previous: Input | None = None,
    calibration: Output | None = None,
    quarantine: Output | None = None,
    tables: Input | None = None,
    *,
    key: str,
    label: str | None = None,
    schema: str | None = None,
    extra_columns: Literal["refuse", "keep", "drop"] = "refuse",
    validation_percent: int = 10,
    test_percent: int = 10,
    calibration_percent: int | None = None,
    salt: str = "",
    rows_per_shard: int = 1_000_000,
    delimiter: str = ",",
    split_by: str = "key",
    validation_from: str = "",
    test_from: str = "",
    calibration_from: str | None = None,
    fit: str | None = None,
    on_leakage: Literal["ignore", "report", "fail"] = "report",
    groups: str = "",
    incremental: bool = False,
    keep_versions: int = 1,
    cells_like_rows: Literal["refuse", "keep"] = "refuse",
    rules: str | None = None,
    night: str | None = None,
) -> None:
    """Split a table into train, validation and test sets, as Parquet shards with a manifest.

    A row's side is decided by a hash of its key alone (data/split.py), so it never changes sides when data grows.
    Rows keep their order: files sorted by name, then the order in the file. The files may be of different formats;
    all must have the same columns. Types that are not given are inferred from all rows: int64, float64, bool or text.
    In a CSV file an empty cell is null, and so are NA, NaN, null and None in a column of numbers, or of nothing else.
    The sets of an earlier run are replaced when the new ones are complete: a reader finds in a folder the earlier set
    or the new one, whole. The disk needs room for both.

    Args:
        raw: a folder of CSV (.csv, .tsv), JSON Lines (both also gzipped), Parquet and Arrow files, or one such file.
        train: gets the train set: manifest.json, and part-00000.parquet, ... in a folder of this version.
        validation: gets the validation set.
        test: gets the test set.
        previous: the folder of an earlier run's train, validation and test, prepared with incremental=true: only files
            that it did not read are read, and its shards are taken over. Where a file of it has changed or is gone, or
            a parameter differs, all is prepared anew, and the reason is printed. A new file in which a column is of
            another type is refused.
        calibration: gets the calibration set, which nothing but calibrate should read, where there is one.
        quarantine: gets the rows that rules put aside, where rules put rows aside.
        tables: what columns refer to by the rule found_in: each file or folder here is a table, called by its name
            without its ending.
        key: the column that names a row: integers or text, never null, each value once. 7 and "7" are the same key.
        label: the column to predict; integers, bools and text name classes, floats are a quantity.
        schema: types as "column:type,..." with Arrow's type names; a column may be a pattern, as in
            "id:int64,p*:float32". A longer one goes into schema.json beside the data.
        extra_columns: what to do with columns that the schema does not name.
        validation_percent: the percentage of keys in the validation set; 0 leaves it empty.
        test_percent: the percentage of keys in the test set; 0 leaves it empty.
        calibration_percent: the percentage of keys in a calibration set, taken from train; the others stay as they are.
        salt: changes which keys fall on which side.
        rows_per_shard: rows of each Parquet file but the last.
        delimiter: what separates the cells of a CSV file; one character, or tab. Without one a .tsv has tabs.
        split_by: what decides on the side: "key"; "group:COLUMN" (rows of one value are on one side); "time:COLUMN"
            (by validation_from and test_from, not by percentages); "strata:COLUMN" (the percentages of each value).
        validation_from: with a split by time, when the validation set begins, as 2026-11-25 or 2026-11-25T08:00:00
            (in UTC where the column has a zone).
        test_from: with a split by time, when the test set begins.
        calibration_from: with a split by time, when a calibration set begins, between validation and test.
        fit: a JSON list of transforms that are fitted on the train set alone: impute, scale, categories, vocabulary
            (docs/data.md). Shards hold the values as they came; readers and served models apply what was learnt.
        on_leakage: what to do where validation or test has a row that train has, too, but for the key, or a value of
            groups: report prints and writes into the manifest how many. A run with previous compares with its rows,
            too, where that run looked itself. ignore does not look, and writes no hashes of keys, by which evaluate
            recognises a test set of another run.
        groups: columns whose values should each be on one side alone, separated by commas, such as "user,patient".
        incremental: keep what a later run needs to read only what is new: 8 bytes a row, and statistics.
        keep_versions: earlier versions of each set that stay in its folder when it is prepared again.
        cells_like_rows: what to do with a CSV file if a cell in quotes holds ten or more lines that look like rows:
            refuse it (a quote may not be closed), or keep the cell.
        rules: what must hold for rows, as JSON (docs/data.md, "Rules for rows"); a pipeline also takes the name of a
            YAML file, or a dict. A rule warns, puts rows aside, or fails. Of a run with previous only new rows count.
        night: the time that rules mean by `night`, as 2026-11-25 or 2026-11-25T02:00:00.

    Raises:
        InputError: the data or a parameter is wrong; file, row and column are named. The outputs stay as they were.
    """
    from drivetrain.data.increments import NotUsableError, open_earlier
    from drivetrain.data.reading import TableOptions, continued_table, open_table, type_change
    from drivetrain.data.row_rules.applying import RowRuling
    from drivetrain.data.sides import declared_split
    from drivetrain.data.source import CellError, find_sources
    from drivetrain.data.version_folder import check_folders

    percents = {"validation": validation_percent, "test": test_percent, "calibration": calibration_percent or 0}
    _check_parameters(percents, rows_per_shard, keep_versions)
    split = declared_split(
        split_by,
        key=key,
        salt=salt,
        **{f"{side}_percent": percent for side, percent in percents.items()},
        validation_from=validation_from,
        test_from=test_from,
        calibration_from=calibration_from or "",
    )
    folders = {"train": train, "validation": validation, "test": test}
    if len(split.sides) > len(folders):
        if calibration is None:
            raise InputError("there is no folder for the calibration set. Give --calibration.")
        folders["calibration"] = calibration
    ruling = RowRuling.declared(rules, quarantine=quarantine, tables=tables, night=night)
    if split.kind == "strata" and ruling.folder:
        raise InputError("rules put rows aside, which split_by=strata does not allow for. Use warn or fail.")
    check_folders({"raw": raw, **ruling.inputs}, {**folders, **ruling.outputs})
    options = TableOptions(
        key=key,
        label=label,
        schema=schema,
        extra_columns=extra_columns,
        delimiter=delimiter,
        cells_like_rows=cells_like_rows,
        types=ruling.types,
    )
    parameters = {**asdict(options), **split.parameters, **({"fit": fit} if fit else {}), **ruling.parameters}
    del parameters["cells_like_rows"], parameters["types"]  # the one decides on no row, the other is in the rules
    preparation = _Preparation(
        folders, split, label, rows_per_shard, keep_versions, incremental, fit, on_leakage, groups, parameters, ruling
    )

    if previous is not None:
        try:
            if split.kind == "strata":
                raise NotUsableError("rows change sides in a split by strata when data grows")
            earlier = open_earlier(previous, list(folders), parameters)
            new = earlier.new_sources(find_sources(raw))
            for line in earlier.passed_over(find_sources(raw)):
                warn(line)
            if late := earlier.out_of_order(new):
                warn(f"{late} sorts before a file that was read earlier: its rows come last nevertheless")
            table = continued_table(raw, options, new, earlier.arrow_schema(), earlier.columns_without_values())
            try:
                preparation.run(table, find_sources(raw), earlier)
            except CellError as error:
                raise type_change(table, error) from None
            return
        except NotUsableError as reason:
            warn(f"all is prepared anew: {reason}")

    table = open_table(raw, options, whole=False)
    try:
        preparation.run(table, table.sources)
    except CellError:
        if table.is_typed_by_files:
            raise
        # The first rows of each file do not tell the types of all.
        table = open_table(raw, options, whole=True)
        preparation.run(table, table.sources)


@dataclass(frozen=True)
class _Preparation:
    """From a table to the sets."""

    folders: Mapping[str, Path]
    split: Split
    label: str | None
    rows_per_shard: int
    keep_versions: int
    incremental: bool
    fit: str | None
    on_leakage: str
    groups: str
    parameters: Mapping[str, Any]
    ruling: RowRuling

    def run(self, table: Table, sources: Sequence[Source], earlier: Earlier | None = None) -> None:
        """Write the rows of a table, after those of an earlier run; `sources` are the files of both."""
        self.ruling.attempt(table, lambda readable: self._run(readable, sources, earlier))

    def _run(self, table: Table, sources: Sequence[Source], earlier: Earlier | None) -> None:
        from drivetrain.data.fitting import Fitting, declared_fits
        from drivetrain.data.hash_runs import Scratch
        from drivetrain.data.shards import ShardWriter
        from drivetrain.data.version_folder import NO_SPACE, STAGING, no_space

        key, label, rows = self.split.key, self.label, self.rows_per_shard
        writers = {
            side: ShardWriter(folder, table.schema, key=key, label=label, rows_per_shard=rows)
            for side, folder in self.folders.items()
        }
        fitting = Fitting(declared_fits(self.fit, table.schema, key=key, label=label), table.schema)
        writers["train"].fit(fitting)
        scratch = Scratch(self.folders["train"] / STAGING)
        try:
            self.ruling.start(table, scratch)
            for side, writer in writers.items():
                writer.start()
                if self.on_leakage != "ignore":
                    writer.sample_keys()
                if self.incremental or earlier:
                    writer.keep_state()
                if earlier:
                    writer.continue_from(earlier.sets[side])
            self._write(table, sources, writers, earlier, fitting, scratch)
        except OSError as error:
            if error.errno in NO_SPACE:
                # Its room is free again before the message counts what is free.
                scratch.close()
                self.ruling.discard()
                for writer in writers.values():
                    writer.discard()
                raise no_space(self.folders["train"], error) from error
            raise
        finally:
            scratch.close()
            self.ruling.discard()
            for writer in writers.values():
                writer.discard()

    def _write(
        self,
        table: Table,
        sources: Sequence[Source],
        writers: Mapping[str, ShardWriter],
        earlier: Earlier | None,
        fitting: Fitting,
        scratch: Scratch,
    ) -> None:
        """Deal the rows out, check what can only be known of all of them, and replace what an earlier run wrote."""
        from drivetrain.data.checks import (
            check_classes,
            check_distinct_keys,
            check_keys_are_new,
            check_present,
            warn_of_decimal_commas,
        )
        from drivetrain.data.convert import typed
        from drivetrain.data.hash_runs import HashRuns
        from drivetrain.data.increments import fingerprint
        from drivetrain.data.lanes import Lane
        from drivetrain.data.leakage import Leakage, report
        from drivetrain.data.sides import Sides
        from drivetrain.data.split import key_hashes
        from drivetrain.data.version_folder import publish

        key, salt = self.split.key, self.split.salt
        sides = Sides(self.split, table, scratch)
        keys = HashRuns(scratch)
        leakage = Leakage(table.schema, key, self.groups, scratch, self.split.sides)
        looks = self.on_leakage != "ignore"
        if looks and earlier:
            looks = self._go_on(leakage, earlier)

        def deal(batch: Batch, hashes: Array) -> None:
            masks = sides.masks(batch, hashes)
            for side, mask in masks.items():
                writers[side].append(batch.filter(mask), hashes.filter(mask))
            if looks:
                for side, row_hashes in leakage.add(batch, masks).items():
                    writers[side].keep_rows(row_hashes)

        dealing = Lane()
        try:
            for source, first, batch, kept in self.ruling.judged(table):
                check_present(table, source, first, batch, "key", key, kept)
                if self.label is not None:
                    check_present(table, source, first, batch, "label", self.label, kept)
                if self.split.column not in (key, self.label):
                    check_present(table, source, first, batch, self.split.kind, self.split.column, kept)
                hashes = key_hashes(batch.column(key), salt)
                keys.add(hashes)
                dealing.do(deal, batch, hashes)
            dealing.wait()
        finally:
            dealing.close()
        ruled = self.ruling.finish()
        for writer in writers.values():
            writer.finish()
        if not earlier:
            warn_of_decimal_commas(table)
        check_distinct_keys(table, keys, key, salt)
        if earlier:
            check_keys_are_new(table, earlier, keys, key, salt)
        rows = {side: writer.rows for side, writer in writers.items()}
        self.split.check(rows)
        if self.label is not None:
            check_classes(writers, self.label, self.split.kind)
        leaks = leakage.found() if looks else {}
        if looks:
            report(leaks, rows, self.on_leakage)
            for side, writer in writers.items():
                writer.keep_compared(leakage.groups(side))
        read = earlier.fingerprints(sources) if earlier else [fingerprint(source) for source in sources]
        fitted = fitting.result()
        common = {"parameters": self.parameters, "sources": read, **ruled}
        manifests = {
            side: writer.stage(
                {**common, "side": side, "parent": _parent(earlier, side)}, fitted=fitted, leakage=leaks.get(side)
            )
            for side, writer in writers.items()
        }
        publish([*writers.values(), *self.ruling.staged({"sources": read, **ruled})], self.keep_versions)
        for name in sorted(() if earlier else table.empty):
            warn(
                f"column {name!r} has no value. It is text; where numbers come later, say so: {typed(name, 'float64')}"
            )
        for side, manifest in manifests.items():
            shards = "1 shard" if len(manifest.shards) == 1 else f"{len(manifest.shards)} shards"
            print(
                f"{side}: {manifest.rows:,} rows, {manifest.bytes:,} bytes in {shards},",
                f"content {manifest.content_hash[:12]}",
                flush=True,
            )

    def _go_on(self, leakage: Leakage, earlier: Earlier) -> bool:
        """Return True if leakage can be looked for among the earlier rows, too.

        Raises:
            NotUsableError: it cannot, and must.
        """
        from drivetrain.data.increments import NotUsableError

        try:
            leakage.continue_from(earlier)
        except NotUsableError as reason:
            if self.on_leakage == "fail":
                raise
            warn(f"leakage is not looked for in this run, nor in those that go on from it: {reason}")
            return False
        return True


def _parent(earlier: Earlier | None, side: str) -> str | None:
    return earlier.sets[side].manifest.content_hash if earlier else None


def _check_parameters(percents: Mapping[str, int], rows_per_shard: int, keep_versions: int) -> None:
    given = {f"{side}_percent": percent for side, percent in percents.items() if percent or side != "calibration"}
    for name, percent in given.items():
        if not 0 <= percent <= 99:
            raise InputError(f"{name} is {percent}. Allowed: 0 to 99.")
    if sum(given.values()) > 99:
        *others, last = (f"{name} {percent}" for name, percent in given.items())
        raise InputError(f"{', '.join(others)} and {last} leave nothing to train on. Their sum must be below 100.")
    if rows_per_shard < 1:
        raise InputError(f"rows_per_shard is {rows_per_shard}. Allowed: 1 and more.")
    if keep_versions < 0:
        raise InputError(f"keep_versions is {keep_versions}. Allowed: 0 and more.")


if __name__ == "__main__":
    prepare_data.main()
