"""Differences between groups: by fairlearn's definitions, written as a loop; and how often their intervals hold."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from drivetrain.base.errors import InputError
from drivetrain.training.evaluation.fairness import measured
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.metric_states.result import Measured, Slice
from drivetrain.training.process import Process
from drivetrain.training_scripts.evaluate import run
from tests.distributed.prepared_data import write_prepared

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
ROWS = 1200


def tables(folder: Path, seed: int = 0) -> tuple[Path, Path, dict[str, Any]]:
    """Prepared data with groups, and a table of answers of two classes."""
    random = np.random.default_rng(seed)
    sex, site = random.choice(["f", "m"], ROWS), random.choice(["x", "y", "z"], ROWS)
    label = random.integers(0, 2, ROWS)
    score = np.clip(0.5 + 0.25 * (label - 0.5) + 0.1 * (sex == "m") + 0.2 * random.normal(size=ROWS), 0.01, 0.99)
    rows = {"id": np.arange(ROWS), "sex": sex.tolist(), "site": site.tolist(), "label": label}
    data = write_prepared(folder / "data", rows)
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["statistics"] = {
        name: {"values": [{"value": each, "rows": 1} for each in values]}
        for name, values in {"sex": ["f", "m", "other"], "site": ["x", "y", "z"]}.items()
    }
    (data / "manifest.json").write_text(json.dumps(manifest))
    answers = folder / "answers.csv"
    answers.write_text("id,score\n" + "".join(f"{row},{each}\n" for row, each in enumerate(score.tolist())))
    return data, answers, {**rows, "predicted": (score >= 0.5).astype(int)}


def expected(rows: dict[str, Any], column: str) -> tuple[float, float]:
    """fairlearn's demographic_parity_difference and equalized_odds_difference."""
    rates: dict[str, list[float]] = {"all": [], "1": [], "0": []}
    for group in sorted(set(rows[column])):
        chosen = [(y, p) for g, y, p in zip(rows[column], rows["label"], rows["predicted"], strict=True) if g == group]
        rates["all"].append(sum(p for _, p in chosen) / len(chosen))
        for label in (1, 0):
            own = [p for y, p in chosen if y == label]
            rates[str(label)].append(sum(own) / len(own))
    gaps = {name: max(values) - min(values) for name, values in rates.items()}
    return gaps["all"], max(gaps["1"], gaps["0"])


def evaluated(folder: Path, data: Path, answers: Path, **settings: Any) -> dict[str, Any]:
    given = Settings(task="binary", **settings)
    run(None, data, ALONE, answers=answers, settings=given, report=folder / "report")
    return json.loads((folder / "report/evaluation.json").read_text())


def test_differences_are_those_of_fairlearn_and_have_intervals(tmp_path: Path) -> None:
    data, answers, rows = tables(tmp_path)
    found = evaluated(tmp_path, data, answers, fairness="sex, site", scoring="accuracy")
    for column in ("sex", "site"):
        for name, value in zip(("demographic_parity", "equalized_odds"), expected(rows, column), strict=True):
            entry = found["metrics"][f"{name}_{column}"]
            assert entry["value"] == pytest.approx(value, abs=1e-12)
            assert entry["low"] < entry["value"] < entry["high"] and entry["higher_is_better"] is False
    assert found["metrics"]["demographic_parity_sex"]["low"] > 0  # they differ truly
    assert found["metrics"]["demographic_parity_site"]["low"] == 0
    sex, label, predicted = (np.array(rows[name]) for name in ("sex", "label", "predicted"))
    tried = [[predicted[(sex == group) & (label == of)] for group in "fm"] for of in (0, 1)]
    exact = [[binomtest(int(x.sum()), len(x)).proportion_ci(1 - 0.05 / 4) for x in each] for each in tried]
    highest = max(max(ci.high for ci in each) - min(ci.low for ci in each) for each in exact)
    assert found["metrics"]["equalized_odds_sex"]["high"] == pytest.approx(highest)
    drawn = json.loads((tmp_path / "report/bootstrap.json").read_text())["metrics"]["equalized_odds_site"]
    assert len(drawn) == 200 and found["settings"]["fairness"] == ["sex", "site"]
    assert any("taken for class 1 are" in note and "0 is equal" in note for note in found["notes"])


def test_crossed_slices_have_the_rows_of_both_values(tmp_path: Path) -> None:
    data, answers, rows = tables(tmp_path)
    found = evaluated(tmp_path, data, answers, slices="site, sex*site", bootstrap=20)
    crossed = {each["value"]: each for each in found["slices"] if each["column"] == "sex*site"}
    assert sorted(crossed) == [f"{sex}*{site}" for sex in "fm" for site in "xyz"]  # no row is of "other"
    chosen = [
        rows["label"][row] == rows["predicted"][row]
        for row in range(ROWS)
        if (rows["sex"][row], rows["site"][row]) == ("m", "y")
    ]
    assert crossed["m*y"]["num_samples"] == len(chosen)
    assert crossed["m*y"]["metrics"]["accuracy"]["value"] == pytest.approx(np.mean(chosen))
    assert sum(each["num_samples"] for each in crossed.values()) == ROWS


def test_rows_with_empty_cells_are_a_slice_and_a_group(tmp_path: Path) -> None:
    _, answers, rows = tables(tmp_path)
    holes: dict[str, Any] = {"sex": [*rows["sex"][:-200], *[None] * 200], "age": [None] * 90 + [30, 40] * 555}
    data = write_prepared(tmp_path / "holes", {"id": rows["id"], **holes, "label": rows["label"]})
    manifest = json.loads((data / "manifest.json").read_text())
    listed = {"sex": ["f", "m"], "age": [30, 40]}
    manifest["statistics"] = {
        name: {"values": [{"value": each, "rows": 1} for each in values], "nulls": 90}
        for name, values in listed.items()
    }
    (data / "manifest.json").write_text(json.dumps(manifest))
    found = evaluated(tmp_path, data, answers, fairness="sex", slices="age, sex*age", bootstrap=20)
    sizes = {(each["column"], each["value"]): each["num_samples"] for each in found["slices"]}
    assert (sizes["sex", "missing"], sizes["age", "missing"], sizes["age", 40]) == (200, 90, 555)
    assert sizes["sex*age", "missing*30"] == 100
    assert any("of sex=f to" in note for note in found["notes"])


def test_an_evaluation_says_which_slices_it_found(tmp_path: Path) -> None:
    data, answers, _ = tables(tmp_path)
    found = evaluated(tmp_path, data, answers, find_slices=True)
    assert found["found_slices"]["found"] == [] and found["found_slices"]["tested"]
    assert found["notes"][0].startswith("No slice has a larger loss")
    assert found["notes"][1] == "precision, recall, f1: of class 1."


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    data, answers, _ = tables(tmp_path)
    with pytest.raises(InputError, match="fairness='sex' is for binary models, and this one is regression"):
        (tmp_path / "numbers.csv").write_text(answers.read_text().replace("score", "predicted"))
        run(None, data, ALONE, answers=tmp_path / "numbers.csv", settings=Settings(task="regression", fairness="sex"))
    with pytest.raises(InputError, match="lists no values of column 'id'"):
        evaluated(tmp_path, data, answers, slices="sex*id")
    with pytest.raises(InputError, match="which bootstrap=0 leaves out"):
        Settings(find_slices=True, bootstrap=0)


def groups_of(successes: Sequence[int], trials: Sequence[int], size: int, keys: float | None = None) -> list[Slice]:
    """Groups of `size` rows, in which a rate is successes / trials of a class."""
    rates = [Measured(value=one / of, num_samples=of) for one, of in zip(successes, trials, strict=True)]
    return [
        Slice(column="g", value=place, num_samples=size, metrics={"rate": rate}, undefined={}, num_keys=keys)
        for place, rate in enumerate(rates)
    ]


@pytest.mark.parametrize("shares", [(0.3,) * 2, (0.5,) * 20, (0.1, 0.3), (0.2, 0.3, 0.3, 0.35), (0.95, 0.7)])
@pytest.mark.parametrize("trials", [5, 50])
def test_intervals_hold_the_true_difference(shares: tuple[float, ...], trials: int) -> None:
    random, sets, held = np.random.default_rng(1), 100, 0
    for seen in random.binomial(trials, shares, (sets, len(shares))).tolist():
        found = measured(groups_of(seen, [trials] * len(shares), 200), ["rate"], 0.95)
        assert found.low is not None and found.high is not None
        held += found.low <= max(shares) - min(shares) <= found.high
    assert held >= 0.95 * sets - 3 * math.sqrt(0.95 * 0.05 * sets)


def test_an_interval_is_of_the_rows_of_a_class_and_of_as_many_as_keys() -> None:
    """The ends are those of scipy's exact intervals, each at 1 - 0.05 / 2."""
    both = [binomtest(successes, 10).proportion_ci(0.975) for successes in (10, 2)]
    for found in (
        measured(groups_of([10, 2], [10, 10], 80), ["rate"], 0.95),
        measured(groups_of([20, 4], [20, 20], 80, keys=40), ["rate"], 0.95),
    ):
        assert found.low == pytest.approx(both[0].low - both[1].high) and found.value == 0.8
        assert found.high == pytest.approx(both[0].high - both[1].low)
