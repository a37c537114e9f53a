"""Frames of Polars: made of Arrow batches, in pieces, on the disk."""

from __future__ import annotations

import importlib
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Batch, arrow, required
from drivetrain.data.transform import types
from drivetrain.data.transform.verbs import Columns

# polars.DataFrame, polars.LazyFrame, polars.DataType; polars itself is imported when a plan is run.
Frame = Any
Lazy = Any
DataType = Any

BATCH_ROWS = 1 << 16
BUCKETS = 64
# No column of a user's has these names.
_BUCKET, _LAST = "\1bucket", "\1last"


def polars() -> Any:
    """The polars module.

    Raises:
        InputError: it is not installed.
    """
    return required("polars", "data", "transformations need polars")


def data_type(name: str) -> DataType:
    """The type of Polars that holds the values of a type of ours."""
    pl = polars()
    if types.is_decimal(name):
        pa_type = types.arrow_type(name)
        return pl.Decimal(pa_type.precision, pa_type.scale)
    if types.is_timestamp(name):
        return pl.Datetime("us", types.zone_of(name))
    names = {"bool": "Boolean", "string": "String", "binary": "Binary", "date32": "Date", "null": "Null"}
    return getattr(pl, names.get(name) or name.replace("uint", "UInt").replace("int", "Int").replace("float", "Float"))


def scan(batches: Callable[[], Iterator[Batch]], columns: Columns) -> Lazy:
    """A lazy frame of Arrow batches that have these columns."""
    pa, pl = arrow(), polars()
    schema = {name: data_type(kind) for name, kind in columns.items()}
    given = types.arrow_schema(columns)

    def frames() -> Iterator[Frame]:
        for batch in batches():
            yield pl.from_arrow(pa.Table.from_batches([batch]).cast(given), schema=schema)

    return lazy(frames, schema)


def lazy(frames: Callable[[], Iterator[Frame]], schema: Any) -> Lazy:
    """A lazy frame of frames that have this schema, which are made as they are needed."""
    plugins = importlib.import_module("polars.io.plugins")

    def source(wanted: Any, predicate: Any, rows: Any, batch_size: Any) -> Iterator[Frame]:
        for frame in frames():
            chosen = frame if predicate is None else frame.filter(predicate)
            yield chosen if wanted is None else chosen.select(wanted)

    return plugins.register_io_source(source, schema=schema)


def pieces(frame: Lazy) -> Iterator[Frame]:
    """The rows of a lazy frame in their order, some at a time.

    Raises:
        InputError: Polars ended before the last row. After a panic it gives no error (seen with 2.1), so a row is
            added that must come last.
    """
    pl = polars()
    last = pl.LazyFrame({_LAST: [True]})
    marked = pl.concat([frame.with_columns(pl.lit(False).alias(_LAST)), last], how="diagonal")
    is_whole = False
    for piece in marked.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, engine="streaming"):
        if piece[_LAST].any():
            is_whole, piece = True, piece.head(-1)
        if len(piece):
            yield piece.drop(_LAST)
    if not is_whole:
        raise InputError(
            "the transformation failed: Polars panicked and left rows out. What it wrote to standard error says where. "
            "Try another version of polars, or engine=spark."
        )


def together(frames: Iterator[Frame], schema: Any) -> Frame:
    """All rows in one frame."""
    return polars().concat([polars().DataFrame(schema=schema), *frames], rechunk=True)


def held(frame: Lazy, memory: int) -> tuple[Frame, Iterator[Frame] | None]:
    """All rows, or as many as there is memory for and the others."""
    more, found, size = pieces(frame), list[Frame](), 0
    for piece in more:
        found.append(piece)
        size += piece.estimated_size()
        if size > memory:
            return together(iter(found), frame.collect_schema()), more
    return together(iter(found), frame.collect_schema()), None


def of_size(frames: Iterator[Frame], memory: int) -> Iterator[Frame]:
    """The same rows in frames of about half as many bytes: what is made of one needs room, too."""
    found: list[Frame] = []
    size = 0
    for frame in frames:
        found.append(frame)
        size += frame.estimated_size()
        if size >= memory // 2:
            yield polars().concat(found, rechunk=True)
            found, size = [], 0
    if found:
        yield polars().concat(found, rechunk=True)


class Buckets:
    """Rows on the disk by the hash of their keys: equal keys are in one bucket, each in the order of the rows."""

    def __init__(self, folder: Path, frames: Iterator[Frame], schema: Any, by: Sequence[str], memory: int) -> None:
        pl = polars()
        self._folder = Path(tempfile.mkdtemp(prefix="buckets-", dir=folder))
        self._schema = schema
        number = pl.struct(by).hash() % BUCKETS if by else pl.lit(0, pl.UInt64)
        for count, frame in enumerate(of_size(frames, memory)):
            parts = frame.with_columns(number.alias(_BUCKET)).partition_by(
                _BUCKET, as_dict=True, include_key=False, maintain_order=True
            )
            for (bucket,), rows in parts.items():
                rows.write_ipc(self._folder / f"{bucket}-{count:06d}.arrow", compression="lz4")

    def take(self, bucket: int) -> Frame:
        """The rows of a bucket, which are then gone from the disk."""
        files = sorted(self._folder.glob(f"{bucket}-*.arrow"))
        found = together((polars().read_ipc(file) for file in files), self._schema)
        for file in files:
            file.unlink()
        return found


def merged(frames: Iterator[Frame], order: Sequence[str], folder: Path) -> Lazy:
    """One lazy frame of frames that are each sorted by `order`, nulls last; they lie on the disk meanwhile."""
    pl = polars()
    place = Path(tempfile.mkdtemp(prefix="runs-", dir=folder))
    files: list[Path] = []
    keys: dict[str, Any] = {}
    for number, frame in enumerate(frames):
        if not keys:
            keys = _merge_keys(frame.schema, order)
        files.append(place / f"{number:06d}.arrow")
        # In small batches, since all files are read at a time.
        frame.with_columns(**keys).write_ipc(files[-1], compression="lz4", record_batch_size=BATCH_ROWS // BUCKETS)
    return pl.merge_sorted([_run(file) for file in files], key=list(keys), maintain_order=True).drop(list(keys))


def in_places(frames: Iterator[Frame], place: str, folder: Path, memory: int) -> Lazy:
    """One lazy frame of frames that are each sorted by `place`, a column of row numbers.

    Each frame is cut into ranges of places, which lie on the disk; a range of all frames is then sorted at once, where
    merging 64 frames copies each row six times. A range that has grown too large, by a join, is merged nevertheless.
    """
    pl = polars()
    at = Path(tempfile.mkdtemp(prefix="places-", dir=folder))
    ranges: dict[int, list[Path]] = {}
    sizes: dict[int, int] = {}
    schema: Any = None
    step = 0
    for number, frame in enumerate(frames):
        schema = schema or frame.schema
        if not frame.height:
            continue
        if not step:
            # So many places that their rows, of all frames, take half of the memory.
            width = max(1, frame.estimated_size() // frame.height)
            step = max(1, memory // 2 // width)
        starts = (frame[place] // step).rle().struct.field("len").cum_sum().shift(1, fill_value=0).to_list()
        for start, stop in itertools.pairwise([*starts, frame.height]):
            part = frame.slice(start, stop - start)
            which = part[place][0] // step
            file = at / f"{number:06d}-{which}.arrow"
            part.write_ipc(file, compression="lz4", record_batch_size=BATCH_ROWS // BUCKETS)
            ranges.setdefault(which, []).append(file)
            sizes[which] = sizes.get(which, 0) + part.estimated_size()

    def ordered() -> Iterator[Frame]:
        for which, files in sorted(ranges.items()):
            if sizes[which] > 2 * memory:
                yield from pieces(pl.merge_sorted([_run(file) for file in files], key=[place], maintain_order=True))
            else:
                yield together(map(pl.read_ipc, files), schema).sort(place, maintain_order=True)

    return lazy(ordered, schema)


def _run(file: Path) -> Lazy:
    """The rows of a file, batch by batch: a scan of Polars reads ahead, and there are many files."""
    pa, pl = arrow(), polars()

    def frames() -> Iterator[Frame]:
        with pa.OSFile(str(file)) as opened:
            batches = pa.ipc.open_file(opened)
            for number in range(batches.num_record_batches):
                yield pl.from_arrow(batches.get_batch(number), schema=schema)

    schema = pl.read_ipc_schema(file)
    return lazy(frames, schema)


def _merge_keys(schema: Any, order: Sequence[str]) -> dict[str, Any]:
    """Columns without nulls that order rows alike: Polars merges a run whose keys are all null before the others."""
    pl = polars()
    keys: dict[str, Any] = {}
    for name in order:
        kind = schema[name]
        least = "" if kind == pl.String else b"" if kind == pl.Binary else 0
        keys[f"{name}\1null"] = pl.col(name).is_null()
        keys[f"{name}\1value"] = pl.col(name).fill_null(pl.lit(least).cast(kind))
    return keys
