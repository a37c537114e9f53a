"""Labels that arrive later: joined by key, and what is left out is counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.late_labels import LateLabels, read_labels

SERVED = pa.array(["1", "2", "3", "4", "5"])


def read(folder: Path, text: str, label: str = "") -> LateLabels:
    (folder / "labels.csv").write_text(text)
    return read_labels(folder / "labels.csv", SERVED, key="id", label=label)


def test_labels_are_joined_by_key_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    found = read(tmp_path, "id,left\n2,no\n9,yes\n4,yes\n2,no\n5,no\n5,yes\n3,\n")
    assert dict(zip(found.keys.to_pylist(), found.labels.to_pylist(), strict=True)) == {"2": "no", "4": "yes"}
    assert (found.twice, found.contradicting, found.never_served) == (1, 1, 1)
    assert found.sentence(5) == (
        "2 of 5 served rows have a label (1 key with several rows of one label; 1 key with different labels, left out; "
        "1 key never served)"
    )


def test_a_prepared_set_says_its_label(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("id,x,left\n1,0,3\n2,0,4\n7,0,5\n")
    sets: dict[str, Any] = {side: tmp_path / side for side in ("train", "validation", "test")}
    prepare_data(raw=tmp_path / "raw.csv", key="id", label="left", validation_percent=0, test_percent=0, **sets)
    found = read_labels(sets["train"], SERVED, key="id", label="")
    assert found.labels.to_pylist() == [3, 4] and found.never_served == 1


def test_types_that_later_rows_tell_are_found(tmp_path: Path) -> None:
    rows = "".join(f"{row},{row}\n" for row in range(10, 700_000))
    found = read(tmp_path, f"id,left\n{rows}1,late\n")
    assert found.labels.to_pylist() == ["late"]


def test_labels_that_the_task_does_not_have_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,left\n2,no\n3,maybe\n3,yes\n4,NO\n")

    def understood(labels: Any) -> Any:
        return pa.array([each if each in ("no", "yes") else None for each in labels.to_pylist()])

    found = read_labels(tmp_path / "labels.csv", SERVED, key="id", label="", understood=understood)
    assert dict(zip(found.keys.to_pylist(), found.labels.to_pylist(), strict=True)) == {"2": "no", "3": "yes"}
    assert (found.bad, found.rows) == (2, 4)
    assert found.sentence(5).endswith("(2 labels are none of the task, such as 'maybe', left out)")


@pytest.mark.parametrize(("rows", "is_unlike"), [(range(1, 26), False), (range(6, 25), False), (range(6, 26), True)])
def test_labels_of_other_keys_are_told_with_an_example(tmp_path: Path, rows: range, is_unlike: bool) -> None:
    found = read(tmp_path, "id,left\n" + "".join(f"{row},no\n" for row in rows))
    told = (
        "0 of 20 labels have the key of a served row: keys of labels are such as '6', those of served rows such as '1'"
    )
    assert bool(re.match(told, found.unlike)) == is_unlike and (is_unlike or not found.unlike)


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("customer,left\n1,no\n", "", "key"),
        ("id,left,x\n1,no,2\n", "", "labels: say with label which column of .*labels.csv it is. There are: left, x"),
        ("id,left\n1.5,no\n", "", "labels: key: column 'id' is a .*A schema is given to prepare_data"),
        ("id,left,x\n1,no,2\n", "churn", "churn"),
    ],
)
def test_columns_that_are_not_there_are_named(tmp_path: Path, text: str, label: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text, label)
