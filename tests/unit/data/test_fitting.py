"""Transforms that are fitted on the train set: what is learnt, and that training and serving see the same values."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data import exact_sums
from drivetrain.data.fitted import of_request
from drivetrain.data.fitting import Fitting, declared_fits
from drivetrain.data.manifest import Manifest
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.process import Process
from drivetrain.training.serving.inputs import inputs_of
from drivetrain.training.serving.request import columns_of
from drivetrain.training_scripts.readers import prepared

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SIDES = ("train", "validation", "test")
FIT: list[dict[str, Any]] = [
    {"impute": {"columns": ["age"], "with": "mean"}},
    {"scale": {"columns": ["age", "size"], "method": "standard"}},
    {"impute": {"columns": ["count"], "with": "median"}},
    {"scale": {"columns": ["count"], "method": "min_max"}},
    {"impute": {"columns": ["flag"], "with": {"value": 0}}},
    {"categories": {"columns": ["city", "code"], "min_rows": 2}},
    {"vocabulary": {"columns": ["note"], "size": 5, "length": 4}},
    {"scale": {"columns": ["image"], "each": "position"}},
]
COLUMNS = ("age", "size", "count", "flag", "city", "code", "note", "image")


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "id": f"{seed}-{number}",
            "label": number % 2,
            "age": draw.choice([None, math.nan, draw.gauss(40, 10), draw.gauss(40, 10)]),
            "size": draw.gauss(0, 1e-3),
            "count": draw.choice([None, draw.randrange(1000), draw.randrange(1000)]),
            "flag": draw.choice([None, True, False]),
            "city": draw.choice(["Bern", "Oslo", "São Paulo", None, f"rare{number}"]),
            "code": draw.choice(["007", "12", "x"]),
            "note": draw.choice(["Good film", "a BAD film, don't", "", "film " * 9, None]),
            "image": [draw.randrange(256), draw.randrange(256), 7],
        }
        for number in range(count)
    ]


SCHEMA = pa.schema(
    {
        **{"id": pa.string(), "label": pa.int64(), "age": pa.float32(), "size": pa.float64(), "count": pa.int32()},
        **{"flag": pa.bool_(), "city": pa.string(), "code": pa.string(), "note": pa.string()},
        "image": pa.list_(pa.uint8()),
    }
)


def write(path: Path, given: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(given, SCHEMA), path)


def prepare(raw: Path, out: Path, previous: Path | None = None, **parameters: Any) -> None:
    given = {"key": "id", "label": "label", "fit": json.dumps(FIT), **parameters}
    prepare_data(raw, *(out / side for side in SIDES), previous, **given)


def of_side(folder: Path) -> list[dict[str, Any]]:
    return [row for shard in Manifest.read(folder).shards for row in pq.read_table(folder / shard.file).to_pylist()]


def present(given: list[dict[str, Any]], name: str) -> list[Any]:
    found = (row[name] for row in given)
    return [value for value in found if value is not None and not (isinstance(value, float) and math.isnan(value))]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write(tmp_path / "raw" / "1.parquet", rows(600))
    prepare(tmp_path / "raw", tmp_path)
    return tmp_path


def read(folder: Path, fitted: Any = None, names: tuple[str, ...] = COLUMNS) -> dict[str, Any]:
    reader = prepared.Reader(folder, prepared.Options(fitted=fitted), ALONE)
    reader.open(names)
    return dict(reader.read(slice(0, len(reader)), names))


def test_fitting_uses_the_train_set_only(place: Path) -> None:
    manifests = [Manifest.read(place / side) for side in SIDES]
    assert manifests[0].fitted == manifests[1].fitted == manifests[2].fitted
    learnt = {name: [*state["changes"]] for name, state in manifests[0].fitted["columns"].items()}
    train = of_side(place / "train")
    assert len(train) < 600
    ages = present(train, "age")
    assert learnt["age"][0]["impute"] == pytest.approx(np.mean(ages))
    assert learnt["age"][1]["scale"] == pytest.approx({"center": np.mean(ages), "width": np.std(ages)})
    counts = present(train, "count")
    assert sorted(counts)[len(counts) // 2 - 1] <= learnt["count"][0]["impute"] <= sorted(counts)[len(counts) // 2]
    assert learnt["count"][1]["scale"] == {"center": min(counts), "width": max(counts) - min(counts)}
    assert learnt["flag"] == [{"impute": 0}]
    cities = Counter(present(train, "city"))
    assert learnt["city"][0]["categories"] == sorted(
        (city for city, number in cities.items() if number > 1), key=lambda city: (-cities[city], city)
    )
    assert learnt["note"][0]["vocabulary"]["words"][0] == "film" and len(learnt["note"][0]["vocabulary"]["words"]) == 5
    images = np.array([row["image"] for row in train], float)
    assert learnt["image"][0]["scale"]["center"] == pytest.approx(images.mean(axis=0).tolist())
    assert learnt["image"][0]["scale"]["width"] == pytest.approx([*images.std(axis=0)[:2].tolist(), 1.0])


def test_training_and_serving_see_the_same_values_row_by_row(place: Path) -> None:
    """Each row of each side by itself as a request, against the columns that a training reads."""
    fitted = Manifest.read(place / "train").fitted
    for side in SIDES:
        found = read(place / side)
        described = [{"name": n, "dtype": v.dtype.str, "shape": list(v.shape[1:])} for n, v in found.items()]
        inputs = inputs_of(Path(), {"inputs": {"columns": described, "reader": "prepared"}, "data": {"fitted": fitted}})
        for number, row in enumerate(of_side(place / side)):
            asked = {name: None if row[name] != row[name] else row[name] for name in COLUMNS}
            served = columns_of(json.dumps([asked]), "application/json", inputs)
            for name in COLUMNS:
                assert served[name].dtype == found[name].dtype
                np.testing.assert_array_equal(served[name][0], found[name][number], err_msg=f"{side} {number} {name}")
        lines = "age,size,count,flag,city,code,note\n,0.5,7,1,Bern,007,film\n"
        flat = inputs_of(
            Path(), {"inputs": {"columns": described[:-1], "reader": "prepared"}, "data": {"fitted": fitted}}
        )
        assert columns_of(lines, "text/csv", flat)["code"][0] == 1 + fitted["columns"]["code"]["changes"][0][
            "categories"
        ].index("007")


def test_a_csv_request_is_read_like_the_training_csv(tmp_path: Path) -> None:
    """Markers of missing values, blanks, signs and bools; of JSON a key that is not there is a null."""
    cells = ["NA", "null", "", " N/A ", "None", "nan", " 7 ", "+8", "9"]
    flags = ["NA", "TRUE", "false", "null", "true", "", "False", "true", "None"]
    lines = "".join(f"{n},{n % 2},{cells[n % 9]},{flags[n % 9]}\n" for n in range(180))
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text("id,label,age,flag\n" + lines, encoding="utf-8")
    fit = (
        '[{"impute": {"columns": ["age"], "with": "median"}}, {"impute": {"columns": ["flag"], "with": {"value": 0}}}]'
    )
    prepare(tmp_path / "raw", tmp_path, fit=fit)
    fitted = Manifest.read(tmp_path / "train").fitted
    found = read(tmp_path / "train", names=("age", "flag"))
    described = [{"name": n, "dtype": v.dtype.str, "shape": []} for n, v in found.items()]
    inputs = inputs_of(Path(), {"inputs": {"columns": described, "reader": "prepared"}, "data": {"fitted": fitted}})
    train = [int(row["id"]) for row in of_side(tmp_path / "train")]
    body = "".join(f"{cells[n % 9]},{flags[n % 9]}\n" for n in train)
    for text in (body, "age,flag\n" + body):
        served = columns_of(text, "text/csv", inputs)
        for name in ("age", "flag"):
            np.testing.assert_array_equal(served[name], found[name], err_msg=name)
    filled = found["age"][train.index(next(n for n in train if n % 9 == 0))]
    served = columns_of('{"flag": true}\n{"age": 7}\n{"age": null, "flag": false}', "application/jsonlines", inputs)
    assert served["age"].tolist() == [filled, 7.0, filled] and served["flag"].tolist() == [1, 0, 0]
    for kind, wrong, message in (
        ("application/json", '[{"age": true}]', "age, row 1: True is not of the type int64"),
        ("application/json", '[{"aeg": 1}]', "row 1 has no column of the model, which takes age, flag"),
        ("text/csv", "1_0,true\n", "age, row 1: '1_0' is not of the type int64"),
    ):
        with pytest.raises(InputError, match=message):
            columns_of(wrong, kind, inputs)


def test_empty_text_is_missing_in_training_and_in_requests(tmp_path: Path) -> None:
    given = [{**row, "city": "" if number % 2 else row["city"]} for number, row in enumerate(rows(400))]
    write(tmp_path / "raw" / "0.parquet", given)
    fit = '[{"impute": {"columns": ["city"], "with": "most_frequent"}}, {"categories": {"columns": ["city"]}}]'
    prepare(tmp_path / "raw", tmp_path, fit=fit)
    impute, categories = Manifest.read(tmp_path / "train").fitted["columns"]["city"]["changes"]
    assert impute["impute"] != "" and "" not in categories["categories"]
    state = Manifest.read(tmp_path / "train").fitted["columns"]["city"]
    cities = [row["city"] for row in of_side(tmp_path / "test")]
    found = read(tmp_path / "test", names=("city",))["city"]
    assert "" in cities and found.tolist() == of_request(state, cities, "city").tolist()
    imputed = categories["categories"].index(impute["impute"]) + 1
    assert {found[number] for number, city in enumerate(cities) if not city} == {imputed}


def test_new_data_is_read_with_the_fitted_values_of_the_model(place: Path) -> None:
    write(place / "raw" / "1.parquet", rows(600, seed=1))
    before = Manifest.read(place / "train").fitted
    prepare(place / "raw", place)
    now = Manifest.read(place / "train").fitted
    assert before != now
    test = of_side(place / "test")
    for given, used in ((before, before), (None, now)):
        center, width = used["columns"]["size"]["changes"][0]["scale"].values()
        expected = np.array([(row["size"] - center) / width for row in test], "float32")
        np.testing.assert_array_equal(read(place / "test", given)["size"], expected)


def test_a_changed_fit_changes_the_training_key(place: Path) -> None:
    class Recipe:
        columns = ("size",)
        num_classes = 2

    given: Any = Recipe()
    dataset = Dataset(place / "train", given, ALONE)
    assert dataset.fitted == Manifest.read(place / "train").fitted
    assert dataset.inputs["columns"] == [{"name": "size", "dtype": "<f4", "shape": []}]
    assert "fitted" not in dataset.inputs["options"]


def test_an_increment_fits_like_a_full_run(place: Path) -> None:
    prepare(place / "raw", place / "out", incremental=True)
    for number in (2, 3):
        write(place / "raw" / f"{number}.parquet", rows(200, seed=number))
        prepare(place / "raw", place / "out", place / "out", incremental=True)
    prepare(place / "raw", place / "full", incremental=True)
    found, full = (Manifest.read(place / name / "train") for name in ("out", "full"))
    assert found.lineage["parent"]
    assert json.dumps(found.fitted) == json.dumps(full.fitted)


EVERY = [
    {"impute": {"columns": ["x"], "with": "mean"}},
    {"scale": {"columns": ["x", "small"]}},
    {"scale": {"columns": ["y"], "method": "min_max"}},
    {"impute": {"columns": ["z"], "with": "median"}},
    {"impute": {"columns": ["whole"], "with": "most_frequent"}},
    {"categories": {"columns": ["city"], "max": 5}},
    {"vocabulary": {"columns": ["note"], "size": 3}},
    {"scale": {"columns": ["image"], "each": "position"}},
]


def hard_numbers(draw: random.Random) -> float | None:
    """Numbers whose rounded sums depend on their order: of all magnitudes and signs, subnormal, zero, missing."""
    kinds = [None, math.nan, math.inf, 0.0, -0.0, 5e-324, -3e-310, 1.7e308, -1.7e308, 1e16, 1.0]
    return draw.choice([*kinds, *(math.ldexp(draw.uniform(-1, 1), draw.randrange(-1080, 1024)) for _ in range(11))])


@pytest.mark.parametrize("seed", range(6))
def test_fitted_values_do_not_depend_on_the_sharding_of_rows(seed: int) -> None:
    """Held to a run over everything, bit by bit; each state goes through JSON, as between two nights."""
    draw = random.Random(seed)
    count = draw.choice([5, 700, 20_000])
    numbers = [hard_numbers(draw) if seed % 2 else draw.gauss(1e6, 1.0) for _ in range(count)]
    table = pa.table(
        {
            **{name: pa.array(draw.sample(numbers, count), pa.float64()) for name in ("x", "y", "z")},
            "small": pa.array([draw.gauss(0, 1) for _ in range(count)], pa.float32()),
            "whole": pa.array([draw.choice([None, -3, 7, 2**40]) for _ in range(count)], pa.int64()),
            "city": [draw.choice("abcdefghi") for _ in range(count)],
            "note": [draw.choice(["good film", "bad film", "", None]) for _ in range(count)],
            "image": [[draw.choice(numbers) or 0.0, draw.random()] for _ in range(count)],
        }
    )
    fits = declared_fits(json.dumps(EVERY), table.schema, key="id", label=None)
    whole = Fitting(fits, table.schema)
    whole.add(table)
    cuts = sorted(draw.sample(range(count), min(4, draw.randrange(9))))
    state = Fitting(fits, table.schema).state()
    for start, end in zip([0, *cuts], [*cuts, count], strict=True):
        night = Fitting(fits, table.schema)
        night.restore(json.loads(json.dumps(state)))
        night.add(table.slice(start, end - start))
        state = night.state()
    assert json.dumps(night.result()) == json.dumps(whole.result())


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_exact(seed: int) -> None:
    draw = random.Random(seed)
    kinds = [0.0, 5e-324, -3e-310, 1.7e308, -1.7e308, 0.1, float(np.float32(0.1))]
    drawn = [math.ldexp(draw.uniform(-1, 1), draw.randrange(-1080, 1024)) for _ in range(300)]
    values = [draw.choice(kinds + drawn) for _ in range(400)]
    table = np.array(values).reshape(-1, draw.choice([1, 4]))
    sums, squares = exact_sums.sums_and_squares(table)
    for number, column in enumerate(table.T.tolist()):
        assert Fraction(sums[number], 1 << exact_sums.UNIT) == sum(map(Fraction, column))
        assert Fraction(squares[number], 1 << 2 * exact_sums.UNIT) == sum(Fraction(value) ** 2 for value in column)
    assert exact_sums.unpacked(json.loads(json.dumps(exact_sums.packed([*sums, 0, -12])))) == [*sums, 0, -12]
    near = np.array([[1e9 + number / 16] for number in range(9)])
    (total,), (square,) = exact_sums.sums_and_squares(near)
    assert exact_sums.mean(total, 9) == 1e9 + 0.25
    assert exact_sums.deviation(total, square, 9) == math.sqrt(Fraction(60, 9)) / 16


@pytest.mark.parametrize(
    ("fit", "expected"),
    [
        ("{", "fit is not JSON"),
        ("[]", "fit is not a list of changes. Example: [{"),
        ([{"scale": ["age"]}], "fit, change 1 is {'scale': ['age']}"),
        ([{"scales": {"columns": ["age"]}}], "fit, change 1: there is no change 'scales'. Did you mean 'scale'?"),
        ([{"scale": {"columns": ["agee"]}}], "there is no column 'agee'. Did you mean 'age'?"),
        ([{"scale": {"columns": ["age"], "metod": 1}}], "scale has no option 'metod'. Did you mean 'method'?"),
        ([{"scale": {"columns": ["label"]}}], "column 'label' is the key or the label"),
        ([{"scale": {"columns": ["city"]}}], "scale of column 'city', which is a string column"),
        ([{"vocabulary": {"columns": ["age"]}}], "which is a float32 column"),
        ([{"impute": {"columns": ["city"], "with": "mean"}}], "impute of column 'city', which is a string column"),
        ([{"impute": {"columns": ["city"], "with": "mode"}}], "with is 'mode'. Allowed: \"mean\", "),
        ([{"impute": {"columns": ["city"], "with": {"value": 5}}}], "which is a string column"),
        ([{"categories": {"columns": ["city"], "max": 0}}], "min_rows, max are whole numbers from 1 on"),
        ([{"scale": {"columns": ["age"]}}, {"impute": {"columns": ["age"], "with": "mean"}}], "comes after scale"),
        ([{"scale": {"columns": ["none"]}}], "column 'none' has no value in train"),
    ],
)
def test_unfittable_columns_give_one_error(tmp_path: Path, fit: Any, expected: str) -> None:
    table = pa.Table.from_pylist(rows(100), SCHEMA).append_column("none", pa.nulls(100, pa.float64()))
    (tmp_path / "raw").mkdir()
    pq.write_table(table, tmp_path / "raw" / "1.parquet")
    with pytest.raises(InputError) as caught:
        prepare(tmp_path / "raw", tmp_path, fit=fit if isinstance(fit, str) else json.dumps(fit))
    assert expected in str(caught.value)
    assert not (tmp_path / "train" / "manifest.json").exists()


def test_a_missing_value_without_a_fill_is_named(tmp_path: Path) -> None:
    write(tmp_path / "raw" / "1.parquet", rows(100))
    prepare(tmp_path / "raw", tmp_path, fit=json.dumps([{"scale": {"columns": ["age"]}}]))
    reader = prepared.Reader(tmp_path / "train", prepared.Options(), ALONE)
    with pytest.raises(InputError, match=r"column 'age' of shard .*, row \d+: the value is missing. Impute it"):
        reader.open(("age",))
    fitted = Manifest.read(tmp_path / "train").fitted
    inputs = inputs_of(
        tmp_path,
        {
            "inputs": {"columns": [{"name": "age", "dtype": "<f4", "shape": []}], "reader": "prepared"},
            "data": {"fitted": fitted},
        },
    )
    for body, expected in (
        ('[{"age": null}]', "age, row 1: the value is missing"),
        ('[{"age": 1}, {"age": "old"}]', "age, row 2: 'old' is not of the type float32"),
    ):
        with pytest.raises(InputError, match=expected):
            columns_of(body, "application/json", inputs)
