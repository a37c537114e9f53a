"""Example data: files and tables that are the same on every machine."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from drivetrain.assets.assets import data_asset
from drivetrain.assets.examples import example
from drivetrain.base.errors import UserError


def test_a_generated_table_is_the_same_everywhere() -> None:
    uri, (asset,) = data_asset("s3://b", "example:churn", Path())
    assert uri == asset.uri == f"s3://b/data/{asset.sha256}/churn.csv"
    assert asset.sha256.startswith("2085948ac65a768e4c8d92f0"), "another table: trained models and caches change"
    content = example("churn")["churn.csv"]
    assert isinstance(content, bytes)
    header, *rows = csv.reader(content.decode().splitlines())
    assert len(rows) == 3000 and header[-1] == "churn" and {row[-1] for row in rows} == {"yes", "no"}
    assert 100 < sum(row[4] == "" for row in rows) < 200


@pytest.mark.slow
def test_the_generated_model_is_one_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    uri, assets = data_asset("s3://b", "example:tiny_llama", Path())
    for asset in assets:
        assert isinstance(asset.content, bytes)
        (tmp_path / asset.uri.removeprefix(uri)).write_bytes(asset.content)
    model, found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert model.config.vocab_size == len(tokenizer) and tokenizer("the soup was cold")["input_ids"] == [4, 6, 5, 22]


def test_programs_of_an_example_folder_are_python_files_there() -> None:
    _, assets = data_asset("s3://b", "example:own", Path())
    assert [asset.uri.rpartition("/")[2] for asset in assets] == ["answer.py", "fit.py"]


def test_unknown_example_data_are_refused() -> None:
    with pytest.raises(UserError, match=r"No example data 'churm'\. Did you mean 'churn'"):
        data_asset("s3://b", "example:churm", Path())
