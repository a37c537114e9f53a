"""All rows come, in their order: also of buckets of which a range has outgrown memory."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.engines.polars.frames import in_places, pieces


@pytest.mark.parametrize("copies_of_last", [1, 5000])
def test_rows_come_in_the_order_of_their_places(copies_of_last: int, tmp_path: Path) -> None:
    # Each of 8 frames has every eighth place; a join has multiplied the last row of one.
    frames = [pl.DataFrame({"place": range(bucket, 4000, 8), "value": range(bucket, 4000, 8)}) for bucket in range(8)]
    last = pl.DataFrame({"place": [3993] * copies_of_last, "value": range(copies_of_last)})
    frames[1] = pl.concat([frames[1].filter(pl.col("place") != 3993), last])
    frames.insert(3, frames[0].clear())
    expected = pl.concat(frames).sort("place", maintain_order=True)
    found = in_places(iter(frames), "place", tmp_path, 4096).collect()
    assert found.equals(expected)
    assert len({file.name.partition("-")[2] for file in tmp_path.rglob("*.arrow")}) > 10  # ranges


def test_rows_lost_in_a_panic_are_noticed() -> None:
    def panics(values: pl.Series) -> pl.Series:
        if values.max() == 199_999:
            raise pl.exceptions.PanicException("no such thing")
        return values

    frame = pl.LazyFrame({"value": range(200_000)})
    assert sum(map(len, pieces(frame))) == 200_000
    with pytest.raises(InputError, match="Polars panicked and left rows out"):
        list(pieces(frame.select(pl.col("value").map_batches(panics, pl.Int64, is_elementwise=True))))
