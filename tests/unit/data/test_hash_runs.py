"""Hashes of which most lie on the disk are those that were added."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.components.prepare_data import prepare_data
from drivetrain.data import hash_runs, increments
from drivetrain.data.hash_runs import HashRuns, HashSet, Scratch
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")
HASHES = st.sampled_from([0, 1, 5, 2**54 - 1, 2**54, 2**62, 2**63, 2**63 + 1, 2**64 - 1, 77])


@settings(deadline=None)
@given(
    st.lists(st.lists(HASHES, max_size=6), max_size=6), st.sampled_from([1, 2, 7, 1000]), st.sampled_from([1, 3, 1000])
)
def test_hashes_are_read_back_sorted(batches: list[list[int]], run: int, part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_runs, "RUN_HASHES", run)
        patch.setattr(hash_runs, "PART_HASHES", part)
        scratch = Scratch(Path(tempfile.gettempdir()))
        all_of_them, once, other = HashRuns(scratch), HashRuns(scratch, unique=True), HashRuns(scratch)
        for batch in batches:
            for each in (all_of_them, once, other):  # (in turn, so that their runs lie between one another's)
                each.add(pa.array(batch, pa.uint64()))
        added = sorted(value for batch in batches for value in batch)
        parts = all_of_them.parts(hash_runs.num_parts(len(all_of_them)))
        assert [value for part in parts for value in part.tolist()] == added
        assert len(all_of_them) == len(added)
        assert [value for part in once.parts(4) for value in part.tolist()] == sorted(set(added))
        assert [[value >> 62 for value in part.tolist()] for part in other.parts(4)] == [
            [quarter] * sum(value >> 62 == quarter for value in added) for quarter in range(4)
        ]
        repeated = [value for part in all_of_them.repeated() for value in part.tolist()]
        assert repeated == sorted(value for value, count in Counter(added).items() if count > 1)
        places = [0, len(added) // 2, len(added)]
        assert all_of_them.at(places) == [added[place] if place < len(added) else 2**64 - 1 for place in places]
        scratch.close()


def test_membership_matches_that_of_a_set() -> None:
    draw = np.random.default_rng(1)
    hashes = draw.integers(0, 1 << 64, 5000, np.uint64)
    hashes[::7] ^= np.uint64(1)  # (equal in the first bits)
    wanted = np.concatenate([hashes[::50], hashes[::60] ^ np.uint64(1), np.array([0, (1 << 64) - 1], np.uint64)])
    expected = [value for value in hashes.tolist() if value in set(wanted.tolist())]
    assert 0 < len(expected) < 300
    assert HashSet(pa.array(wanted)).among(pa.array(hashes)).tolist() == expected
    assert HashSet(pa.array([], pa.uint64())).among(pa.array(hashes)).tolist() == []
    assert HashSet(pa.array(wanted)).among(pa.array([], pa.uint64())).tolist() == []


def written(folder: Path) -> dict[str, bytes]:
    """All that lies in the folders of the sides but shards, which the manifests have the checksums of."""
    files = [path for side in SIDES for path in (folder / side).rglob("*")]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.is_file() and path.suffix != ".parquet"
    }


@pytest.mark.parametrize("split", ["key", "strata:user"])
def test_files_do_not_depend_on_the_memory_limit(split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nights of one data set, the second of which goes on from the first where the split allows it."""
    draw = np.random.default_rng(3)
    nights = [range(400), range(400, 500)] if split == "key" else [range(400)]

    def prepare(out: Path) -> None:
        for number, keys in enumerate(nights):
            (out / "raw").mkdir(parents=True, exist_ok=True)
            pq.write_table(tables[keys], out / "raw" / f"{number}.parquet")
            sides = (out / side for side in SIDES)
            given = {"key": "id", "groups": "user", "split_by": split, "incremental": True}
            prepare_data(out / "raw", *sides, out if number else None, **given)

    tables = {
        keys: pa.table({"id": list(keys), **{name: draw.integers(0, 40, len(keys)) for name in ("user", "x")}})
        for keys in nights
    }
    prepare(tmp_path / "held")
    for name, value in (("RUN_HASHES", 50), ("PART_HASHES", 20)):
        monkeypatch.setattr(hash_runs, name, value)
    monkeypatch.setattr(increments, "PIECE_BYTES", 64)
    prepare(tmp_path / "on_disk")
    assert written(tmp_path / "held") == written(tmp_path / "on_disk")
    leakage = Manifest.read(tmp_path / "on_disk" / "test").leakage
    assert leakage["rows"] > 0 and leakage["groups"]["user"] > 0
