"""What a transformation may say, and that anything else is refused by name when it is declared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.transform.expressions import col, lit, op
from drivetrain.data.transform.forms import EXAMPLES
from drivetrain.data.transform.operations import OPERATIONS
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.verbs import Verb

COLUMNS = {
    **{"id": "int64", "name": "string", "x": "float64", "flag": "bool", "day": "date32", "when": "timestamp[us]"},
    **{"local": "timestamp[us, tz=UTC]", "price": "decimal(10, 2)", "u": "uint64"},
}
TABLES = {"users": {"id": "int64", "city": "string"}, "other": {"id": "string", "x": "float64"}}

PLAN = (
    Plan()
    .filter((col("x") > 0) & ~col("flag") | op("is_in", "name", "a", "b"))
    .rename({"x": "size"})
    .cast({"id": "string", "flag": "int8"})
    .derive(half=col("size") / 2, text=lit("é"), part=op("slice", "name", 0, 3))
    .join("users_by_text", on="id", how="left")
    .window({"before": op("lag", "size", 1)}, by="name", order_by=["when", "id"])
    .deduplicate(by=["id", "name"], order_by="when")
    .sort("id")
    .sample("id", percent=10, salt="s")
    .shuffle("id", seed=3)
    .map_batches("my_package.features:add", {"id": "string", "size": "double"})
    .aggregate({"mean": op("mean", "size"), "rows": op("rows")}, by="id")
    .select("mean", "rows")
)


def refused(make: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def test_a_plan_round_trips_through_json() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert len(PLAN.verbs) == 13 and hash(PLAN) == hash(Plan.from_json(PLAN.to_json()))


def test_the_output_columns_of_a_plan_are_known_before_it_runs() -> None:
    found = PLAN.output(COLUMNS, {"users_by_text": {"id": "string", "city": "string"}})
    assert found == {"mean": "float64", "rows": "int64"}
    derived = Plan().derive(
        a=col("id") + 1, b=col("x") + col("id"), c=op("to_zone", "when", "Asia/Tokyo"), x=col("name")
    )
    assert derived.output(COLUMNS) == {
        **COLUMNS,
        **{"a": "int64", "b": "float64", "c": "timestamp[us, tz=Asia/Tokyo]", "x": "string"},
    }


def test_bare_values_are_columns_and_literals() -> None:
    plan = Plan().filter("flag").derive({"z": None}, y=5, x="name", t=True)
    assert plan == Plan().filter(col("flag")).derive(z=lit(None), y=lit(5), x=col("name"), t=lit(True))
    assert Plan.from_json('[{"select": "x"}, {"sort": "x"}]') == Plan().select("x").sort("x")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: op("regexp_replace", "name", "a", "b"),
            "there is no operation 'regexp_replace'. Use replace: engines",
        ),
        (lambda: op("dayofweek", "day"), "Use weekday: 1 for Monday to 7 for Sunday."),
        (lambda: op("dropna", "x"), "engines disagree whether NaN is missing"),
        (lambda: op("uper", "name"), "there is no operation 'uper'. Did you mean 'upper'?"),
        (lambda: op("uper", "name"), "What no operation does, `map_batches` does"),
        (lambda: op("round", "x"), "round takes 2 arguments; 1 are given. It gives rounded to"),
        (lambda: op("coalesce", "x"), "coalesce takes 2 or more arguments; 1 are given"),
        (lambda: lit(1 << 63), "the literal 9223372036854775808 does not fit 64 bits"),
        (lambda: lit([1]), "a literal is [1]. Allowed: numbers, text, true, false and null."),
        (lambda: 1 < col("x") < 2, "an expression has no truth value"),  # type: ignore[operator]
        (lambda: col("x") == 3, "compared with 3 by ==, which tells nothing while a transformation is declared"),
        (lambda: (col("x") > 0) & (col("x") != 3), 'Write op("equal", a, b)'),
        (lambda: Plan().shuffle("id", seed="x"), "shuffle: the seed is 'x'"),  # type: ignore[arg-type]
        (lambda: Plan().derive(y=[5]), "a literal is [5]. Allowed: numbers, text, true, false and null."),
        (lambda: Plan().aggregate({"y": col("x")}), "aggregate: 'y' is not an operation"),  # type: ignore[dict-item]
        (lambda: Plan().window({"y": 5}, by="x"), "window: 'y' is not an operation"),  # type: ignore[dict-item]
        (lambda: Plan().cast({"x": "int46"}), "there is no type 'int46'. Did you mean 'int64'?"),
        (lambda: Plan().cast({"x": "timestamp[us, tz=Mars/Olympus]"}), "there is no time zone 'Mars/Olympus'"),
    ],
)
def test_unknown_operations_are_refused_when_declared(make: Callable[[], Any], expected: str) -> None:
    assert expected in refused(make)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan().select("ix"), "select: there is no column 'ix'. Did you mean 'id'?"),
        (Plan().rename({"x": "id"}), "rename: two columns would be called 'id'"),
        (Plan().filter(col("x") + 1), "filter: the condition is of the type float64; it must be a bool"),
        (Plan().filter(op("equal", "name", "id")), "filter: equal cannot be made of string, int64"),
        (Plan().filter(col("u") > col("id")), "greater cannot be made of uint64, int64"),
        (Plan().filter(op("less", "price", 1)), "less cannot be made of decimal(10, 2), int64"),
        (Plan().derive(a=col("name") + 1), "derive: 'a': argument 1 of add is of the type string; it takes integers"),
        (Plan().derive(a=col("price") + 1), "argument 1 of add is of the type decimal(10, 2)"),
        (Plan().derive(a=lit(None)), "derive: 'a': a column of nulls has no type"),
        (Plan().derive(a=op("max", "x")), "derive: 'a': max does not belong here. Use it in `aggregate or window`."),
        (Plan().derive(a=op("round", "x", "id")), "argument 2 of round is of the type string; it takes integers"),
        (Plan().derive(a=op("round", "x", None)), "argument 2 of round is of the type null; it takes integers"),
        (Plan().derive(a=op("round", "x", col("id"))), "argument 2 of round must be a constant"),
        (Plan().derive(a=op("truncate", "when", "fortnight")), "truncate to 'fortnight'"),
        (Plan().derive(a=op("cast", "x", "string")), "float64 is not cast to string. Allowed: integers, floats."),
        (Plan().derive(a=op("cast", "name", "timestamp[us, tz=UTC]")), "string is not cast to timestamp[us, tz=UTC]"),
        (Plan().derive(a=op("seconds_between", "when", "local")), "seconds_between cannot be made of timestamp[us], "),
        (Plan().derive(a=op("key_hash", "x", "")), "key_hash cannot be made of float64, string"),
        (Plan().cast({"when": "string"}), "cast: column 'when': timestamp[us] is not cast to string. Allowed: date32."),
        (Plan().join("user", on="id"), "join with 'user': there is no such table. Did you mean 'users'?"),
        (Plan().join("other", on="id"), "'id' is int64 on the left and string on the right. Cast one of them."),
        (Plan().join("other", on="x"), "'x' is a float, which is rarely equal"),
        (Plan().derive(city=col("name")).join("users", on="id"), "both tables have a column 'city'"),
        (
            Plan().aggregate({"a": op("lower", "name")}),
            "aggregate: 'a': lower does not belong here. Use it in `derive`",
        ),
        (Plan().aggregate({"id": op("rows")}, by="id"), "this is the name of a column that is grouped by"),
        (Plan().aggregate({"q": op("quantile", "x", 1.5)}), "the fraction of quantile is 1.5. Allowed: 0 to 1."),
        (Plan().window({"a": op("lag", "x", 1)}, by="id"), "lag needs an order. Name columns with order_by."),
        (Plan().window({"a": op("lag", "x", -1)}, by="id", order_by="x"), "lag is given -1"),
        (Plan().deduplicate(by=()), "deduplicate: it names no column"),
        (Plan().sample("x", percent=10), "sample: the key 'x' is of the type float64. Allowed: integers and text."),
        (Plan().shuffle("x"), "shuffle: the key 'x' is of the type float64. Allowed: integers and text."),
        (Plan().sample("id", percent=0), "sample: percent is 0. Allowed: 1 to 99."),
        (Plan().sort(), "sort: it names no column"),
        (Plan().select(), "select: it names no column. Name those that remain."),
        (Plan().aggregate({}), "aggregate: it names no value, and nothing to group by."),
        (Plan().derive(y="z"), "derive: 'y': there is no column 'z'"),
    ],
)
def test_a_plan_that_does_not_fit_the_columns_is_refused(plan: Plan, expected: str) -> None:
    assert expected in refused(lambda: plan.output(COLUMNS, TABLES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "plan is not JSON"),
        ("{}", "plan is not a list of verbs"),
        ('[{"select": ["a"], "sort": ["a"]}]', "plan, verb 1 is {"),
        ('[{"select": ["a"]}, {"limit": 5}]', "plan, verb 2: there is no verb 'limit'"),
        ('[{"filter": {"rand": []}}]', "plan, verb 1, filter: there is no operation 'rand'. Use bucket"),
        (
            '[{"derive": {"a": {"add": ["x", 1], "log": "x"}}}]',
            "plan, verb 1, derive: 'a': an expression is an object of",
        ),
        ('[{"join": {"table": "t"}}]', "plan, verb 1, join: on is missing"),
        ('[{"join": {"table": "t", "on": "a", "kind": "left"}}]', "there is no option 'kind'"),
        ('[{"aggregate": {"values": {"a": "x"}}}]', "plan, verb 1, aggregate: 'a' is not an operation"),
        ('[{"cast": {"a": "int46"}}]', "plan, verb 1, there is no type 'int46'. Did you mean 'int64'?"),
        ('[{"rename": ["a"]}]', 'plan, verb 1, rename: ["a"] is not an object of texts. Example: {"rename": {"ts'),
        ('[{"select": [1]}]', "plan, verb 1, select: [1] is not a name, or a list of names. Example: "),
        ('[{"sort": [{"descending": "a"}]}]', 'For the opposite derive the negated column and name that: {"derive"'),
        (
            '[{"deduplicate": {"by": "a", "order_by": {"a": 1}}}]',
            'order_by is {"a": 1}, not a name, or a list',
        ),
        ('[{"sample": {"key": "a", "percent": "3"}}]', 'percent is "3", not a whole number'),
        ('[{"join": "a"}]', 'plan, verb 1, join: "a" is not an object'),
        ('[{"limit": 3}]', "there is no verb 'limit'. Use window with"),
        ('[{"union": "t"}]', "Use no verb: put the files of both tables into the folder of raw"),
        ('[{"derive": {"a": {"nvl": ["b", 0]}}}]', "there is no operation 'nvl'. Use coalesce."),
    ],
)
def test_json_that_is_not_a_plan_is_refused(text: str, expected: str) -> None:
    assert expected in refused(lambda: Plan.from_json(text))


def test_an_anonymous_function_is_refused() -> None:
    plan = Plan().map_batches(lambda batch: batch, {"id": "int64"})
    assert re.search("a function in a step's parameters is named", refused(plan.to_json))


def test_the_list_of_operations_states_result_types() -> None:
    assert 60 <= len(OPERATIONS) <= 90
    assert [name for name, operation in OPERATIONS.items() if not operation.summary] == []


def test_the_plan_on_the_page_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Plan()" in each)
    found: dict[str, Any] = {}
    exec(block, found)
    assert Plan.from_json(found["parameter"]) == found["plan"]


def test_the_page_shows_the_json_of_every_verb() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `(\w+)` \|.* \| `(\{.*\})` \|$", page, re.MULTILINE)
    assert {name for name, _ in shown} == {next(iter(verb)) for verb in json.loads(PLAN.to_json())}
    for name, text in shown:
        (verb,) = json.loads(Plan.from_json(f"[{text}]").to_json())
        assert list(verb) == [name]


def test_every_verb_has_a_valid_example() -> None:
    read = Plan.from_json(json.dumps([{name: given} for name, given in EXAMPLES.items()])).verbs
    assert {type(verb) for verb in read} == set(get_args(Verb)) and len(read) == len(EXAMPLES)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan().select("id", "id"), "select: 'id' is named twice"),
        (Plan().aggregate({"n": op("rows")}, by=["id", "id"]), "aggregate: by: 'id' is named twice"),
        (Plan().join("users", on="id", how="right"), "how is 'right'. Join from the other table"),  # type: ignore[arg-type]
        (Plan().join("users", on="id", how="outer"), "how is 'outer'. Not available: put both"),  # type: ignore[arg-type]
    ],
)
def test_operations_that_do_not_fit_the_columns_are_refused(plan: Plan, expected: str) -> None:
    assert expected in refused(lambda: plan.output(COLUMNS, TABLES))
