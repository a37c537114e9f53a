"""The form of a file of row rules: what it means, and one message for what has another form."""

import json
from typing import Any

import jsonschema
import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.row_rules.declared import Rule, declared_rules
from drivetrain.decision.data_rules import night_rules
from drivetrain.schemas.row_rules import row_rules_schema

WHOLE: dict[str, Any] = {
    "then": "warn",
    "columns": {
        "id": {"unique": "fail"},
        "price": {"type": "float64", "unreadable": "quarantine", "nulls": {"share": 0.1}, "min": 0, "mask": True},
        "p*": {"below": {"is": 7, "then": "quarantine", "share": 0.1, "rows": 3}},
        "customer": {"found_in": "customers.id", "values": ["a", 1], "pattern": "a+", "max_length": 4},
    },
    "sums": {"total": {"is": ["net", "tax"], "tolerance": 0.01}},
    "rows": {"min": 10, "max": 20, "then": "fail"},
    "quarantine": {"keep_days": 7, "max_rows": 5, "whole_rows": True},
}


def test_a_file_is_read_into_rules() -> None:
    rules = declared_rules(json.dumps(WHOLE))
    assert rules.rules[:4] == (
        Rule("unique", "id", "fail"),
        Rule("unreadable", "price", "quarantine"),
        Rule("nulls", "price", "warn", share=0.1),
        Rule("min", "price", "warn", value=0),
    )
    assert rules.rules[-1] == Rule("sum", "total", "warn", value=["net", "tax"], tolerance=0.01)
    assert (rules.types, rules.masked, rules.tables) == ({"price": "float64"}, {"price"}, {"customers"})
    assert (rules.least_rows, rules.most_rows, rules.rows_then, rules.max_rows) == (10, 20, "fail", 5)


def test_a_rule_allows_no_more_than_its_share_and_its_number_of_rows() -> None:
    rules = declared_rules(WHOLE).rules
    below = next(rule for rule in rules if rule.name == "below")
    assert (below.allowed(10), below.allowed(1000)) == (1.0, 3.0)
    assert Rule("min", "x", "fail").allowed(1000) == 0
    assert Rule("min", "x", "quarantine").allowed(1000) == 50


def test_rules_that_only_look_leave_the_identity_of_the_rows_as_it_is() -> None:
    looking = {"columns": {"a": {"min": 0}}}
    taking = {"columns": {"a": {"min": {"is": 0, "then": "quarantine"}}}}
    assert declared_rules(looking).identity is None
    assert declared_rules(taking).identity == declared_rules({**taking, "rows": {"min": 1}}).identity
    assert (
        declared_rules(taking).identity
        != declared_rules({"columns": {"a": {"min": {"is": 1, "then": "quarantine"}}}}).identity
    )


WRONG: list[tuple[Any, str]] = [
    ("{", "is not JSON"),
    ("rules.yaml", "rules is 'rules.yaml', which is not JSON"),
    ([1], "is not a mapping|and not a mapping"),
    ({"colums": {}}, "rules has no 'colums'. Did you mean 'columns'"),
    ({"columns": {"a": {"mim": 0}}}, "column 'a' has no 'mim'. Did you mean 'min'"),
    ({"columns": {"a": {"min": [0]}}}, "column 'a', min is .0.. Allowed: a number, or a date"),
    ({"columns": {"a": {"min": {"then": "warn"}}}}, "column 'a', min has no value"),
    ({"columns": {"a": {"min": {"is": 0, "than": "warn"}}}}, "column 'a', min has no 'than'"),
    ({"columns": {"a": {"min": {"is": 0, "share": 2}}}}, r"min\.share is 2. Allowed: a number from 0 to 1"),
    ({"columns": {"a": {"nulls": "ignore"}}}, "nulls is 'ignore'. Allowed: warn, quarantine, fail"),
    ({"columns": {"a": {"nulls": {"is": 1}}}}, "nulls has no 'is'"),
    ({"columns": {"a": {"unreadable": "warn"}}}, "unreadable can only be quarantine"),
    ({"columns": {"a": {"type": "number"}}}, "column 'a' has the type 'number'"),
    ({"columns": {"a": {"found_in": "customers"}}}, "Allowed: TABLE.COLUMN"),
    ({"columns": {"a": {"pattern": "a" * 1001}}}, "at most 1000 characters"),
    ({"sums": {"a": "b"}}, "sums, a is 'b'. Allowed: a list of columns"),
    ({"rows": {"then": "quarantine"}}, "rows, then is 'quarantine'. Allowed: warn, fail"),
    ({"quarantine": {"keep_days": -1}}, "keep_days is -1. Allowed: a number from 0"),
    ({"columns": {"a": {"min": 3, "max": 2}}}, "column 'a', min is 3 and max is 2: no value is within both"),
    ({"columns": {"a": {"above": 2, "max": 2}}}, "column 'a', above is 2 and max is 2: no value is within both"),
    ({"columns": {"a": {"min_length": 3, "max_length": 2}}}, "min_length is 3 and max_length is 2"),
    ({"rows": {"min": 10, "max": 5}}, "rows, min is 10 and max is 5"),
]
NIGHTS: dict[str, Any] = {
    "nights": {
        "unanswered": "warn after 3",
        "rows": {"fail": "-50 %"},
        "columns": {"age": {"nulls": {"fail": "+5 points"}, "mean": {"warn": 3}}, "price*": {"std": {"fail": "x3"}}},
    },
    "drift": {"share_moved": {"warn": 0.1, "fail": 0.3}},
    "fresh": {"ordered_at": 2},
}
WRONG_NIGHTS: list[dict[str, Any]] = [
    {"nights": {"row": {"fail": 1}}},
    {"nights": {"rows": {"fial": 1}}},
    {"nights": {"rows": {}}},
    {"nights": {"columns": {"age": {"nuls": {"fail": 1}}}}},
    {"nights": {"unanswered": "warn"}},
    {"drift": {"moved": {"warn": 1}}},
    {"drift": {"share_moved": {"warn": -1}}},
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=lambda each: each[:30] if isinstance(each, str) else "")
def test_another_form_is_refused_by_its_place(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        declared_rules(given)
    assert "\n" not in str(caught.value)


def test_the_schema_for_editors_takes_what_is_read() -> None:
    schema = jsonschema.Draft202012Validator(row_rules_schema())
    schema.validate(WHOLE)
    refused = [given for given, _ in WRONG if isinstance(given, dict) and not schema.is_valid(given)]
    schema.validate(NIGHTS)
    night_rules(json.dumps(NIGHTS))
    for given in WRONG_NIGHTS:
        assert not schema.is_valid(given), given
        with pytest.raises(InputError):
            night_rules(json.dumps(given))
    assert len(refused) >= 11  # (the others are of meanings that a schema does not hold)
