"""A row's side depends on its key and the salt, and on nothing else."""

import hashlib
import random
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data import checks as tabular_checks
from drivetrain.data import split as tabular_split
from drivetrain.data.manifest import Manifest
from drivetrain.data.split import below, key_digests, key_hashes, threshold

SIDES = ("train", "validation", "test")
KEYS = st.lists(st.integers(-(10**6), 10**6), unique=True, max_size=60)


def side_by_the_book(key: str, salt: str, validation: int, test: int) -> str:
    """The rule of data/split.py, computed in exact fractions."""
    digest = hashlib.blake2b(f"{salt}\0{key}".encode(), digest_size=8).digest()
    fraction = Fraction(int.from_bytes(digest, "little"), 2**64)
    if fraction < Fraction(test, 100):
        return "test"
    return "validation" if fraction < Fraction(test + validation, 100) else "train"


def sides(raw: Path, out: Path, salt: str = "", validation: int = 20, test: int = 30) -> dict[str, str]:
    """Key (as text) -> side, as prepare_data decides."""
    import pyarrow.parquet as pq

    prepare_data(
        *(raw, *(out / side for side in SIDES)),
        **{"key": "id", "salt": salt, "validation_percent": validation, "test_percent": test},
    )
    return {
        str(key): side
        for side in SIDES
        for shard in Manifest.read(out / side).shards
        for key in pq.read_table(out / side / shard.file)["id"].to_pylist()
    }


def test_the_hash_never_changes() -> None:
    """With other numbers here, every data set that was ever split would be split anew."""
    assert key_digests([b"0", b"7", "São Paulo".encode()], "").hex() == (
        "33cbd6099b4248034d518cf495a130ac33f4d89a19644e62"
    )
    assert key_digests([b"7"], "2026").hex() == "5e2de9c287baea83"


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=20),
    st.text(max_size=5),
    st.integers(0, 49),
    st.integers(0, 49),
)
def test_the_sides_are_those_of_the_rule(keys: list[str], salt: str, validation: int, test: int) -> None:
    hashes = key_hashes(pa.array(keys, pa.string()), salt)
    found = [
        "test" if in_test else "validation" if in_either else "train"
        for in_test, in_either in zip(
            below(hashes, test).to_pylist(), below(hashes, test + validation).to_pylist(), strict=True
        )
    ]
    assert found == [side_by_the_book(key, salt, validation, test) for key in keys]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_a_number_and_its_digits_are_one_key(keys: list[int]) -> None:
    as_numbers = key_hashes(pa.array(keys, pa.int64()), "salt")
    assert as_numbers.equals(key_hashes(pa.array([str(key) for key in keys], pa.string()), "salt"))


def test_thresholds_are_exact() -> None:
    assert [threshold(percent) for percent in (0, 1, 50, 99)] == [0, 2**64 // 100, 2**63, 99 * 2**64 // 100]


def test_sides_get_their_share() -> None:
    hashes = key_hashes(pa.array(range(100_000)), "")
    for percent in (1, 10, 50, 90):
        count = below(hashes, percent).to_pylist().count(True)
        expected, deviation = 1000 * percent, (1000 * percent * (100 - percent) / 100) ** 0.5
        assert abs(count - expected) < 4 * deviation


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(keys=KEYS, more=KEYS, text_key=st.booleans(), order=st.randoms(), salt=st.sampled_from(["", "x"]))
def test_no_row_changes_sides_when_data_grows(
    tmp_path_factory: pytest.TempPathFactory,
    keys: list[int],
    more: list[int],
    text_key: bool,
    order: random.Random,
    salt: str,
) -> None:
    """Not by more rows before and after, not by another order, file or format, nor when the keys turn into text."""
    folder = tmp_path_factory.mktemp("grow")
    fixed = list(range(10_000_000, 10_000_040))  # enough that no side is empty
    (folder / "raw").mkdir()
    (folder / "raw" / "m.csv").write_text("id\n" + "".join(f"{key}\n" for key in [*keys, *fixed]))
    before = sides(folder / "raw", folder / "before", salt)
    assert before.keys() == {str(key) for key in [*keys, *fixed]}

    mixed = [*keys, *fixed]
    order.shuffle(mixed)
    new = [str(key) for key in more if key not in set(keys)] + (["A-17"] if text_key else [])
    (folder / "raw" / "m.csv").write_text("id\n" + "".join(f"{key}\n" for key in [*new[::2], *mixed]))
    if new[1::2]:
        (folder / "raw" / "a.csv").write_text("id\n" + "".join(f"{key}\n" for key in new[1::2]))
    after = sides(folder / "raw", folder / "after", salt)
    assert {key: side for key, side in after.items() if key in before} == before
    assert after.keys() == before.keys() | set(new)
    assert all(side == side_by_the_book(key, salt, 20, 30) for key, side in after.items())


def test_a_larger_test_percentage_only_adds_to_test(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("id\n" + "".join(f"{key}\n" for key in range(300)))
    small = sides(tmp_path / "raw.csv", tmp_path / "out", validation=10, test=10)
    large = sides(tmp_path / "raw.csv", tmp_path / "out", validation=10, test=30)
    assert {key for key, side in small.items() if side == "test"} < {
        key for key, side in large.items() if side == "test"
    }


def test_another_salt_is_another_split(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("id\n" + "".join(f"{key}\n" for key in range(300)))
    assert sides(tmp_path / "raw.csv", tmp_path / "out", "a") != sides(tmp_path / "raw.csv", tmp_path / "out", "b")


def test_different_keys_with_the_same_hash_are_no_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys of one length share a hash here; they are compared as text, a few at a time."""

    def colliding(keys: list[bytes], salt: str) -> bytes:
        return b"".join(hashlib.blake2b(bytes(len(key)), digest_size=8).digest() for key in keys)

    monkeypatch.setattr(tabular_split, "key_digests", colliding)
    monkeypatch.setattr(tabular_checks, "COMPARED_KEYS", 1)
    raw = tmp_path / "raw.csv"
    raw.write_text("id\n" + "".join(f"{key}\n" for key in range(95, 105)))
    assert len(sides(raw, tmp_path / "out", validation=0, test=0)) == 10
    raw.write_text("id\n" + "".join(f"{key}\n" for key in [*range(95, 105), 103]))
    with pytest.raises(InputError, match=r"raw\.csv, row 12: the key 'id' is 103, as it is in raw\.csv, row 10\."):
        sides(raw, tmp_path / "out", validation=0, test=0)
