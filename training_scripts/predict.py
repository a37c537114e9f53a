"""Predict every row of a data set, on any number of processes and hosts.

    python -m drivetrain.training_scripts.predict --model build/model --data build/new --output build/predictions
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.predict \\
        --model build/model --data build/new --output build/predictions --keep id,site

The output is a Parquet file for each so many rows, in the order of the data, the same bytes whatever the number of
processes: each computes with as many threads as `--threads` says, 1 unless it does, since sums that are shared out
among threads are rounded by their number. Repeated, it does what is missing; docs/prediction.md.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.answers import ENDS, HIGH, KEY, LOW, ROW
from drivetrain.training.answers.written import check_names, parquet
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.launch.processes.parent import die_with_parent
from drivetrain.training.model_folder import tensors_of
from drivetrain.training.prediction import shards
from drivetrain.training.prediction.asked import Asked, model_of
from drivetrain.training.prediction.identity import Identity, difference, identity_of, model_hash
from drivetrain.training.prediction.settings import Settings, parser
from drivetrain.training.process import Process, join_group
from drivetrain.training.strategy import WHOLE


@dataclass(frozen=True)
class Work:
    """The work to be done, the same on every rank: shard -> its record, or the ranks of hosts that have it
    elsewhere."""

    there: dict[int, shards.Record]
    copies: dict[int, int]
    """Shard -> the rank that takes it over from its `previous`."""
    missing: list[int]
    """Shards that are to be predicted; replica r takes those at r, r + replicas, ..."""


def run(
    model_folder: Path,
    data: Path,
    output: Path,
    process: Process,
    *,
    settings: Settings | None = None,
    previous: Path | None = None,
) -> dict[str, int]:
    """Write what is missing of the predictions of a model folder on a folder of data, on all processes together.

    Args:
        output: on each host the folder of its shards; hosts may share one.
        previous: an earlier output; its shards with the same identity are copied.

    Returns:
        rows, shards, and how many of those were there, were copied and were predicted; the same on every rank.

    Raises:
        InputError: a folder that is not what it should be, predictions of something else in the output, a setting that
            cannot be, or an answer that is not finite.
    """
    settings = settings or Settings()
    check_names(settings.columns)
    asked = model_of(model_folder)
    dataset = _open(asked, data, settings, process)
    identity = _agreed_identity(asked, model_folder, dataset, settings, process)
    num_shards = -(-len(dataset) // settings.shard_rows)
    work = _find_work(output, previous, num_shards, identity, settings, process)
    say = print if process.is_main else _silent
    say(
        f"{len(dataset):,} rows in {num_shards:,} shards of {settings.shard_rows:,}: "
        f"{len(work.there):,} of {num_shards:,} shards were there"
        + (f", {len(work.copies):,} are copied" if work.copies else ""),
        flush=True,
    )
    begun = time.monotonic()
    records: dict[int, shards.Record] = {}
    if len(work.there) < num_shards:
        shards.remove_manifest(output)
        process.barrier()  # nothing that it lists is replaced before
    for number, rank in work.copies.items():
        if rank == process.rank:
            assert previous is not None
            record = shards.whole_shard(previous, number, identity)
            if record is None:
                raise InputError(f"{previous / shards.shard_file(number)} was changed while it was looked at.")
            records[number] = shards.copy_shard(previous, output, number, record, identity)
    if work.missing:
        with asked.placed(process, dataset, settings) as (answers, layout):
            written = _Shards(output, num_shards, identity, dataset, settings)
            for number, start, stop in _rounds(work.missing, *layout, len(dataset), settings):
                beat()  # a long prediction is no hang
                columns = answers(start, stop, number is not None)
                if columns is not None and number is not None:
                    written.add(number, start, stop, columns)
            records |= written.records
    done = {str(number): asdict(record) for number, record in records.items()}
    everything = dict(work.there)
    for found in process.group.gather_json(done):
        everything |= {int(number): shards.Record(**record) for number, record in found.items()}
    complete = [everything[number] for number in range(num_shards)]
    if process.is_main:
        # (Columns of the data that are handed on may have these names, too.)
        ends = {LOW, HIGH} <= {*complete[0].schema} and not {LOW, HIGH} & {*settings.columns}
        shards.write_manifest(output, complete, identity, {**asked.described, **({ENDS: True} if ends else {})})
    process.barrier()
    if work.missing:
        seconds = time.monotonic() - begun
        predicted = sum(complete[number].rows for number in work.missing)
        speed = predicted / max(seconds, 1e-9)
        say(f"{predicted:,} rows predicted in {seconds:.1f} s, {speed:,.0f} a second", flush=True)
    return {
        "rows": len(dataset),
        "shards": num_shards,
        "shards_there": len(work.there),
        "shards_copied": len(work.copies),
        "shards_predicted": len(work.missing),
    }


def _silent(*words: object, flush: bool = False) -> None:
    """Print nothing: the first rank tells it."""


def _open(asked: Asked, data: Path, settings: Settings, process: Process) -> Dataset:
    trained_on = asked.description.get("data", {})
    reader, options = settings.reader, settings.reader_options
    if reader == "auto":
        reader = trained_on.get("reader", "auto")
        if options == "{}":
            options = trained_on.get("reader_options", {})
    return Dataset(
        data,
        asked.recipe,
        process,
        reader=reader,
        reader_options=options,
        split="test",
        fitted=trained_on.get("fitted"),
        columns=settings.columns,
        key=True,
        labelled=False,
    )


def _agreed_identity(
    asked: Asked, model_folder: Path, dataset: Dataset, settings: Settings, process: Process
) -> Identity:
    """
    Raises:
        InputError: a host has another model, or other data.
    """
    hashed = model_hash(model_folder) if process.local_rank == 0 else None
    of_models = [found for found in process.group.gather_json(hashed) if found is not None]
    own = identity_of(
        of_models[process.rank // process.local_world_size],
        dataset.content_hash,
        len(dataset),
        dataset.key,
        {"name": dataset.reader_name, **dataset.inputs["options"]},
        settings,
        asked.device_kind(process),
        asked.version,
    )
    for rank, other in enumerate(process.group.gather_json(own)):
        if wrong := difference(json.loads(json.dumps(own)), other):
            raise InputError(f"this host and that of rank {rank} are to predict different things: {wrong}.")
    return own


def _find_work(
    output: Path, previous: Path | None, num_shards: int, identity: Identity, settings: Settings, process: Process
) -> Work:
    """Each host looks at its own folders, a part of the shards by each of its processes.

    Raises:
        InputError: the output, or the earlier one, is of something else.
    """
    refusal = _prepared(output, previous, identity, settings) if process.local_rank == 0 else None
    for said in process.group.gather_json(refusal):
        if said is not None:  # of whichever host
            raise InputError(said)
    mine = range(process.local_rank, num_shards, process.local_world_size)
    there = {number: shards.whole_shard(output, number, identity) for number in mine}
    before: list[int] = []
    if previous is not None and previous != output and not _is_other(previous, identity):
        before = [n for n in mine if there[n] is None and shards.whole_shard(previous, n, identity) is not None]
    given = {str(number): asdict(record) for number, record in there.items() if record is not None}
    found_there: dict[int, shards.Record] = {}
    copies: dict[int, int] = {}
    for rank, (records, copied) in enumerate(process.group.gather_json([given, before])):
        found_there |= {int(number): shards.Record(**record) for number, record in records.items()}
        for number in copied:
            copies.setdefault(number, rank)
    copies = {number: rank for number, rank in sorted(copies.items()) if number not in found_there}
    missing = [number for number in range(num_shards) if number not in found_there and number not in copies]
    return Work(dict(sorted(found_there.items())), copies, missing)


def _is_other(folder: Path, identity: Identity) -> bool:
    """Return True if the folder holds something else, which `on_change=fresh` allows."""
    found = shards.first_identity(folder)
    return found is not None and bool(difference(found, identity))


def _prepared(output: Path, previous: Path | None, identity: Identity, settings: Settings) -> str | None:
    """Make this host's folder, empty of what is of something else. Returns why that cannot be."""
    try:
        shards.refuse_strange(output)
        for folder in [output, *([previous] if previous else [])]:
            found = shards.first_identity(folder)
            wrong = difference(found, identity) if found is not None else ""
            if wrong and settings.on_change == "refuse":
                raise shards.other_identity(folder, wrong)
            if wrong and folder == output:
                shards.clear(output)
        (output / shards.RECORDS).mkdir(parents=True, exist_ok=True)
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{output} cannot be written: {error.strerror or error}. Give another folder."
    return None


def _rounds(
    missing: list[int], replica: int, replicas: int, num_rows: int, settings: Settings
) -> Iterator[tuple[int | None, int, int]]:
    """The batches of this replica's shards: (shard, first row, end).

    Under a strategy that shares the model out every rank takes part in each forward pass: then there are as many on
    every replica, and those too many are of no shard.
    """
    batches = [
        [
            (number, start, min(num_rows, start + settings.batch_size))
            for number in missing[each::replicas]
            for start in range(
                number * settings.shard_rows, min(num_rows, (number + 1) * settings.shard_rows), settings.batch_size
            )
        ]
        for each in range(replicas)
    ]
    yield from batches[replica]
    if settings.strategy not in WHOLE:
        for _ in range(max(map(len, batches)) - len(batches[replica])):
            yield None, 0, 1


class _Shards:
    """Gathers the batches of a shard, which come in order, and writes it when it is whole."""

    def __init__(self, output: Path, num_shards: int, identity: Identity, dataset: Dataset, settings: Settings) -> None:
        self._output, self._num_shards, self._identity = output, num_shards, identity
        self._dataset, self._settings = dataset, settings
        self._parts: list[dict[str, Any]] = []
        self._rows, self._begun = 0, time.monotonic()
        self.records: dict[int, shards.Record] = {}

    def add(self, number: int, start: int, stop: int, answers: Mapping[str, NDArray[Any]]) -> None:
        dataset = self._dataset
        columns: dict[str, Any] = {ROW: np.arange(start, stop, dtype=np.int64)}
        besides = {KEY: dataset.key} if dataset.key else {}
        besides |= {name: name for name in self._settings.columns}
        if besides:
            read = dataset.reader.read(slice(start, stop), list(dict.fromkeys(besides.values())))
            columns |= {name: read[source] for name, source in besides.items()}
        self._parts.append({**columns, **answers})
        self._rows += stop - start
        if stop == min(len(dataset), (number + 1) * self._settings.shard_rows):
            self._commit(number)

    def _commit(self, number: int) -> None:
        whole = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        content, schema = parquet(whole)
        record = shards.write_shard(self._output, number, content, self._rows, schema, self._identity)
        self.records[number] = record
        now = time.monotonic()
        speed = self._rows / max(now - self._begun, 1e-9)
        print(f"shard {number + 1:,} of {self._num_shards:,}: {self._rows:,} rows, {speed:,.0f} a second", flush=True)
        self._parts, self._rows, self._begun = [], 0, now


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        given: dict[str, Any] = vars(parser(__doc__).parse_args())
        folders = {name: given.pop(name) for name in ("model", "data", "output", "previous", "metrics")}
        settings = Settings(**given)
        plugins.forget_current_folder()  # the model says which recipe it is of
        with join_group(framework=tensors_of(folders["model"])) as process:
            numbers = run(
                folders["model"],
                folders["data"],
                folders["output"],
                process,
                settings=settings,
                previous=folders["previous"],
            )
            if process.is_main and folders["metrics"] is not None:
                folders["metrics"].write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")

    run_rank(program)


if __name__ == "__main__":
    main()
