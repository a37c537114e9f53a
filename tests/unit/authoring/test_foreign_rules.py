"""Schemas of other tools as row rules. The objects here have the attributes of pandera 0.35 and dataframely 3.1."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.authoring.row_rules import rules_text
from drivetrain.base.errors import Notice


def _check(name: str, **statistics: Any) -> SimpleNamespace:
    return SimpleNamespace(name=name, statistics=statistics)


def _pandera() -> Any:
    def column(dtype: str, *checks: Any, nullable: bool = False, unique: bool = False) -> SimpleNamespace:
        return SimpleNamespace(dtype=dtype, checks=list(checks), nullable=nullable, unique=unique)

    kind = type("DataFrameSchema", (), {"__module__": "pandera.api.pandas.container"})
    schema: Any = kind()
    schema.checks = []
    schema.columns = {
        "id": column("int64", unique=True),
        "price": column("float64", _check("in_range", min_value=0, max_value=9, include_min=True, include_max=False)),
        "country": column("object", _check("isin", allowed_values=["CH"]), _check("my_check"), nullable=True),
        "code": column("str", _check("str_matches", pattern="[A-Z]")),
    }
    return schema


def _dataframely() -> Any:
    def column(kind: str, **given: Any) -> Any:
        return type(kind, (), {"nullable": False, "primary_key": False, "check": None, **given})()

    columns = {
        "id": column("Int64", primary_key=True),
        "price": column("Float64", min=0, max_exclusive=9, nullable=True, check=lambda each: each > 0),
        "country": column("String", is_in=["CH"], regex="^[A-Z]", min_length=2),
    }
    base = type("Schema", (), {"__module__": "dataframely.schema"})
    return type("Orders", (base,), {"columns": classmethod(lambda cls: columns)})


SUITE = {
    "name": "orders",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "price", "mostly": 0.99}},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "price", "min_value": 0, "strict_min": True},
        },
        {"expectation_type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "country", "value_set": ["CH"]}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "price", "min_value": 1}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}},
    ],
}


@pytest.mark.parametrize(
    ("given", "wanted", "others"),
    [
        (
            _pandera(),
            {
                "id": {"type": "int64", "nulls": "fail", "unique": "fail"},
                "price": {"type": "float64", "nulls": "fail", "min": 0, "below": 9},
                "country": {"values": ["CH"]},
                "code": {"type": "string", "nulls": "fail", "pattern": "(?s:(?:[A-Z]).*)"},
            },
            "my_check of country",
        ),
        (
            _dataframely(),
            {
                "id": {"type": "int64", "nulls": "fail", "unique": "fail"},
                "price": {"type": "float64", "min": 0, "below": 9},
                "country": {
                    **{"type": "string", "nulls": "fail", "min_length": 2, "values": ["CH"]},
                    "pattern": "(?s:.*(?:^[A-Z]).*)",
                },
            },
            "check of price",
        ),
        (
            SUITE,
            {
                "price": {"nulls": {"share": 0.01}, "above": 0},
                "id": {"unique": "fail"},
                "country": {"values": ["CH"]},
            },
            "expect_column_mean_to_be_between",
        ),
    ],
    ids=["pandera", "dataframely", "Great Expectations"],
)
def test_what_has_a_meaning_here_is_translated_and_the_rest_is_listed(given: Any, wanted: Any, others: str) -> None:
    with pytest.warns(Notice, match=f"Step 'prepare': rules have no {others}, which the given schema has"):
        found = json.loads(rules_text(given, "Step 'prepare'"))
    assert found["columns"] == wanted
    assert found.get("rows") == ({"min": 10} if given is SUITE else None)
