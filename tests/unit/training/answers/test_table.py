"""A table of answers is joined to the data by key; what does not fit is one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.answers.samples import Answers, read_answers
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from tests.distributed.prepared_data import write_prepared

ALONE = Process(0, 1, 0, 1, None)
KEYS = ["c7", "c3", "c9", "c1", "c4"]
NUMBERS = [7, 3, 9, 1, 4]
LABELS = [1, 0, 1, 1, 0]
SCORES = [0.9, 0.2, 0.6, 0.4, 0.5]


class Rows:
    columns: tuple[str, ...] = ()
    num_classes = None


def data_of(tmp_path: Path, *, keys: Any = KEYS, labels: Any = LABELS, key: str | None = "id") -> Dataset:
    folder = write_prepared(tmp_path / "data", {"id": keys, "label": labels})
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "key": key}))
    return Dataset(folder, Rows(), ALONE, key=True)  # type: ignore[arg-type]


def answers_of(tmp_path: Path, columns: dict[str, Any], *, task: str = "binary", **data: Any) -> Answers:
    parquet.write_table(pa.table(columns), tmp_path / "answers.parquet")
    return read_answers(tmp_path / "answers.parquet", data_of(tmp_path, **data), task, 0.0)


def samples_of(answers: Answers) -> Any:
    return answers.samples(np.arange(len(answers.dataset)))


def refusal(tmp_path: Path, columns: dict[str, Any], **given: Any) -> str:
    with pytest.raises(InputError) as raised:
        samples_of(answers_of(tmp_path, columns, **given))
    assert "\n" not in str(raised.value)
    return str(raised.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", ["key", "id"])
def test_rows_in_any_order_are_joined_by_key(name: str, tmp_path: Path) -> None:
    order = [3, 0, 4, 2, 1]
    columns = {name: [KEYS[row] for row in order], "score": [SCORES[row] for row in order]}
    samples = samples_of(answers_of(tmp_path, columns))
    assert samples.scores.tolist() == SCORES and samples.targets.tolist() == LABELS
    assert samples.predicted.tolist() == [1, 0, 1, 0, 1]
    assert samples.losses == pytest.approx([-np.log(each) for each in (0.9, 0.8, 0.6, 0.4, 0.5)], rel=1e-14)


def test_data_without_a_key_is_joined_by_row(tmp_path: Path) -> None:
    columns = {"row": [4, 3, 2, 1, 0], "score": SCORES[::-1]}
    assert samples_of(answers_of(tmp_path, columns, key=None)).scores.tolist() == SCORES


def test_keys_that_name_several_rows_need_the_row_beside_them(tmp_path: Path) -> None:
    keys = ["a", "a", "b", "b", "b"]
    columns = {"row": [1, 0, 2, 3, 4], "key": keys, "score": [SCORES[row] for row in (1, 0, 2, 3, 4)]}
    assert samples_of(answers_of(tmp_path, columns, keys=keys)).scores.tolist() == SCORES
    told = refusal(tmp_path, {"key": keys, "score": SCORES}, keys=keys)
    assert told == (
        "answers.parquet has no column 'row', and the data has keys (id) that name several rows: number the rows that "
        "are answered, from 0."
    )
    told = refusal(tmp_path, {**columns, "key": ["a", "b", "a", "b", "b"]}, keys=keys)
    assert told == (
        "column 'key' of answers.parquet has 'b' at row 0, and the data has id='a' there; 2 rows differ. Give the "
        "table of the same data."
    )


def test_csv_files_of_a_folder_are_one_table(tmp_path: Path) -> None:
    keys = ["007", "7", "0x7", "1e3", "nan"]  # none of them is a number
    (tmp_path / "answers").mkdir()
    for number, rows in enumerate(([0, 1, 2], [3, 4])):
        table = pa.table({"id": [keys[row] for row in rows], "score": [SCORES[row] for row in rows]})
        csv.write_csv(table, tmp_path / f"answers/{number}.csv")
    answers = read_answers(tmp_path / "answers", data_of(tmp_path, keys=keys), "binary", 0.0)
    assert samples_of(answers).scores.tolist() == SCORES


def test_the_types_of_a_csv_file_are_those_of_all_its_rows(tmp_path: Path) -> None:
    rows = 150_000
    keys = np.arange(rows)
    scores = np.where(keys < rows - 1, keys % 2, 0.5)
    text = "".join(f"{key},{score:g}\n" for key, score in zip(keys, scores, strict=True))
    (tmp_path / "answers.csv").write_text(f"id,score\n{text}")
    answers = read_answers(tmp_path / "answers.csv", data_of(tmp_path, keys=keys, labels=keys % 2), "binary", 0.0)
    assert samples_of(answers).scores.tolist() == scores.tolist()


def test_files_of_one_table_may_differ_in_the_type_of_a_number(tmp_path: Path) -> None:
    (tmp_path / "answers/.ipynb_checkpoints").mkdir(parents=True)
    (tmp_path / "answers/.ipynb_checkpoints/0.csv").write_text("id,score\nc7,0.1\n")
    (tmp_path / "answers/0.csv").write_text("id,score\nc7,1\nc3,0\nc9,1\n")
    (tmp_path / "answers/1.csv").write_text("id,score\nc1,0.25\nc4,0.5\n")
    answers = read_answers(tmp_path / "answers", data_of(tmp_path), "binary", 0.0)
    assert samples_of(answers).scores.tolist() == [1, 0, 1, 0.25, 0.5]


def test_texts_of_a_csv_file_stay_texts(tmp_path: Path) -> None:
    texts = ["7", "true", "2020-01-01", "", "1e3"]
    lines = [f"{key},{text}" for key, text in zip(KEYS, texts, strict=True)]
    (tmp_path / "answers.csv").write_text("\n".join(["id,text", *lines, ""]))
    answers = read_answers(tmp_path / "answers.csv", data_of(tmp_path, labels=texts), "text", 0.0)
    assert samples_of(answers).values["exact_match"].all()


def test_the_hash_of_a_table_is_that_of_its_content(tmp_path: Path) -> None:
    data, hashes = data_of(tmp_path), []
    for folder, score in (("one", 0.5), ("other", 0.5), ("changed", 0.25)):
        (tmp_path / folder).mkdir()
        parquet.write_table(pa.table({"id": KEYS, "score": [score] * 5}), tmp_path / folder / "answers.parquet")
        hashes += [read_answers(tmp_path / folder, data, "binary", 0.0).content_hash]
        hashes += [read_answers(tmp_path / folder / "answers.parquet", data, "binary", 0.0).content_hash]
    assert len(set(hashes[:4])) == 1 and hashes[4] == hashes[5] != hashes[0]


BAD_KEYS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no key": (
        {"name": KEYS, "score": SCORES},
        {},
        "answers.parquet has no column 'key' or 'id', the key of the data; it has name, score. A table has a row for "
        "each row of the data, named by its key: docs/evaluation.md.",
    ),
    "doubled": (
        {"key": [*KEYS, "c3"], "score": [*SCORES, 0.3]},
        {},
        "answers.parquet answers 1 row more than once, such as key='c3'; it has 6 rows, and the data 5. Leave one "
        "answer to each row.",
    ),
    "too few": (
        {"key": KEYS[:3], "score": SCORES[:3]},
        {},
        "answers.parquet has no answers to 2 rows of the data, such as id='c1'; it has 3 rows, and the data 5. Give "
        "the table of the same data.",
    ),
    "others": (
        {"key": [*KEYS[:4], "c5"], "score": SCORES},
        {},
        "answers.parquet has answers to 1 row that the data does not have, such as key='c5'; it has 5 rows, and the "
        "data 5. Give the table of the same data.",
    ),
    "numbers for texts": (
        {"key": NUMBERS, "score": SCORES},
        {"keys": [str(each) for each in NUMBERS]},
        "column 'key' of answers.parquet is int64, such as 7, and the data's key 'id' is string, such as '7'. Write "
        "the keys as the data has them.",
    ),
    "texts for numbers": (
        {"key": [str(each) for each in NUMBERS], "score": SCORES},
        {"keys": NUMBERS},
        "column 'key' of answers.parquet is string, such as '7', and the data's key 'id' is int64, such as 7. Write "
        "the keys as the data has them.",
    ),
    "empty": (
        {"key": [*KEYS[:4], None], "score": SCORES},
        {},
        "column 'key' of answers.parquet is empty in 1 of 5 rows.",
    ),
    "none": (
        {"key": pa.array([], pa.string()), "score": pa.array([], pa.float64())},
        {},
        "answers.parquet has no rows, and the data has 5. A table has a row for each row of the data, named by its "
        "key: docs/evaluation.md.",
    ),
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_keys_that_do_not_fit_are_refused(case: str, tmp_path: Path) -> None:
    columns, data, expected = BAD_KEYS[case]
    assert refusal(tmp_path, columns, **data) == expected


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    (tmp_path / "mixed").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed/a.csv").write_text("key,score\n")
    (tmp_path / "mixed/a.parquet").write_bytes(b"PAR1")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    (tmp_path / "twice.csv").write_text("id,id,score\nc7,c7,1\n")
    for name, expected in (
        ("mixed", "holds .csv and .parquet files; allowed is a table of .parquet files, or of .csv files."),
        ("empty", "holds no .parquet or .csv file; allowed is a table of .parquet files, or of .csv files."),
        ("missing", "is not there. Give the folder or the file of a table of answers."),
        ("torn.parquet", "cannot be read as a table: "),
        ("twice.csv", "cannot be read as a table: it has two columns 'id'."),
    ):
        with pytest.raises(InputError) as raised:
            read_answers(tmp_path / name, data, "binary", 0.0)
        assert str(raised.value).startswith(f"{tmp_path / name} {expected}")


def test_an_altered_shard_of_batch_predict_is_refused(tmp_path: Path) -> None:
    folder = write_prepared(tmp_path / "answers", {"key": KEYS, "score": SCORES})
    data = data_of(tmp_path)
    read_answers(folder, data, "binary", 0.0)
    whole = (folder / "part-00001.parquet").read_bytes()
    (folder / "part-00001.parquet").write_bytes(whole[:-1] + b"x")
    with pytest.raises(InputError, match=r"part-00001.parquet was altered"):
        read_answers(folder, data, "binary", 0.0)
