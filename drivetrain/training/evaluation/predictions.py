"""Predictions of every row, as Parquet files in the order of the data (drivetrain/training/answers says the columns).

Each rank keeps the batches that it was dealt in a file of its own; once all is counted they go to the first rank one
after the other, which never holds more than a row group. So the files are the same bytes from any number of ranks, on
any number of hosts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.training.answers import HIGH, LOW
from drivetrain.training.answers.written import arrow_array, table_columns
from drivetrain.training.evaluation.files import PREDICTIONS_FOLDER, replacing, writable
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.metric import Samples
from drivetrain.training.outputs import Answers, calibrated, one_value
from drivetrain.training.process import Process
from drivetrain.training.task import Task

ROW_GROUP_ROWS = 1 << 16
ROWS_PER_FILE = 1_000_000


class Predictions:
    """Takes this rank's batches, then writes those of all ranks into `report`/predictions.

    Args:
        report: the folder; the first rank's is used.
        process: this one.
        task: what is predicted.
    """

    def __init__(self, report: Path | None, process: Process, task: Task) -> None:
        import pyarrow as pa

        self._pa: Any = pa
        self._report, self._process, self._task = report, process, task
        self._folder = tempfile.TemporaryDirectory(prefix="drivetrain-predictions-")
        self._file = Path(self._folder.name) / "batches.arrow"
        self._writer: Any = None
        self._first_rows: list[int] = []

    def __enter__(self) -> Predictions:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a file that is removed need not be whole
            self._close()
        self._folder.cleanup()

    def add(
        self,
        first_row: int,
        samples: Samples,
        keys: NDArray[Any] | None,
        more: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """The batch that begins at `first_row`; `keys`, and each of `more` columns, have shape [n].

        Raises:
            InputError: there is no room for it.
        """
        columns = {**self._columns(first_row, samples, keys), **(more or {})}
        batch = self._pa.RecordBatch.from_pydict({name: arrow_array(values) for name, values in columns.items()})
        with writable(self._file.parent, "Free some room there, or set TMPDIR."):
            if self._writer is None:
                self._writer = self._pa.ipc.new_file(str(self._file), batch.schema)
            self._writer.write_batch(batch)
        self._first_rows.append(first_row)

    def write(self) -> None:
        """Every rank must call this, when all batches are in.

        Raises:
            InputError: there is no room for them.
        """
        with writable(self._file.parent, "Free some room there, or set TMPDIR."):
            self._close()
        process = self._process
        batches = self._in_order()
        if process.is_main:
            assert self._report is not None
            folder = self._report / PREDICTIONS_FOLDER
            with writable(folder, "Free some room there, or leave predictions out."):
                _write_files(self._pa, folder, batches)
        else:
            for _ in batches:
                pass

    def _in_order(self) -> Iterator[Any]:
        """On the first rank every batch, in the order of the rows; the others send theirs as they are asked for."""
        process = self._process
        first_rows: list[list[int]] = process.group.gather_json(self._first_rows)
        order = sorted((row, rank, number) for rank, rows in enumerate(first_rows) for number, row in enumerate(rows))
        for _, rank, number in order:
            beat()
            if rank == process.rank:
                batch = self._batch(number)
                if process.is_main:
                    yield batch
                else:
                    self._send(batch)
            elif process.is_main:
                yield self._receive(rank)

    def _batch(self, number: int) -> Any:
        with self._pa.memory_map(str(self._file)) as source:
            return self._pa.ipc.open_file(source).get_batch(number)

    def _send(self, batch: Any) -> None:
        sink = self._pa.BufferOutputStream()
        with self._pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        self._process.group.send(sink.getvalue().to_pybytes())

    def _receive(self, rank: int) -> Any:
        return self._pa.ipc.open_stream(self._pa.py_buffer(self._process.group.receive(rank))).read_next_batch()

    def _close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _columns(self, first_row: int, samples: Samples, keys: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
        arrays = [a for a in (samples.losses, samples.targets, samples.predicted, samples.scores) if a is not None]
        rows = len(arrays[0])
        found: dict[str, NDArray[Any]] = {"row": np.arange(first_row, first_row + rows, dtype=np.int64)}
        for name, values in (("key", keys), ("target", samples.targets)):
            if values is not None:
                found[name] = one_value(values)
        found |= table_columns(self._task, samples.predicted, samples.scores, samples.margins)
        ends = calibrated(self._task.calibration, self._task, Answers(None, samples.predicted)).ends
        found |= {} if ends is None else dict(zip((LOW, HIGH), ends, strict=True))
        if samples.losses is not None:
            found["loss"] = samples.losses
        return found


def _write_files(pa: Any, folder: Path, batches: Iterator[Any]) -> None:
    """Files of ROWS_PER_FILE rows in row groups of ROW_GROUP_ROWS, however the rows were cut into batches."""
    import pyarrow.parquet as parquet

    groups = _row_groups(pa, batches)
    group = next(groups, None)
    number = 0
    while group is not None:
        with replacing(folder / f"part-{number:05d}.parquet") as path:
            rows = 0
            with parquet.ParquetWriter(
                path, group.schema, version="2.6", data_page_version="1.0", compression="zstd", compression_level=1
            ) as writer:
                while group is not None and rows < ROWS_PER_FILE:
                    writer.write_table(group, row_group_size=max(1, group.num_rows))
                    rows += group.num_rows
                    group = next(groups, None)
        number += 1


def _row_groups(pa: Any, batches: Iterator[Any]) -> Iterator[Any]:
    pending: list[Any] = []
    rows, done = 0, 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        while rows >= (wanted := min(ROW_GROUP_ROWS, ROWS_PER_FILE - done)):
            table = pa.Table.from_batches(pending)
            yield table.slice(0, wanted).combine_chunks()
            pending, rows = table.slice(wanted).to_batches(), rows - wanted
            done = (done + wanted) % ROWS_PER_FILE
    if rows:
        yield pa.Table.from_batches(pending).combine_chunks()
