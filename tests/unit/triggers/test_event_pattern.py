"""Event patterns: what is refused, what each operator says, and agreement with an independent matcher."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.triggers.event_pattern import explain, matches
from drivetrain.triggers.pattern_syntax import MAX_COMBINATIONS, PatternError, compiled
from drivetrain.triggers.value_tests import loads

PEOPLE = {"people": [{"first": "Ada", "last": "Lovelace"}, {"first": "Alan", "last": "Turing"}]}


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ([], "Give an object"),
        ({}, "an empty object"),
        ({"a": {}}, "a: an empty object"),
        ({"a": []}, "a: an empty list"),
        ({"a": "x"}, 'a: "x" stands alone. Put it into a list: ["x"]'),
        ({"a": {"b": None}}, "a.b: null stands alone"),
        ({"a": [["x"]]}, "a list inside the list"),
        ({"a": [{"prefx": "x"}]}, "no operator 'prefx'. Did you mean 'prefix'?"),
        ({"a": [{}]}, "has one key; this has 0"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "this has 2 (prefix, suffix)"),
        ({"a": [{"prefix": 1}]}, '"prefix" is 1. Give a text'),
        ({"a": [{"prefix": {"wildcard": "x"}}]}, "and not 'wildcard'"),
        ({"a": [{"prefix": {"equals-ignore-case": 1}}]}, "Give a text"),
        ({"a": [{"suffix": ["x"]}]}, "Give a text"),
        ({"a": [{"exists": "true"}]}, "Give true or false"),
        ({"a": [{"exists": 0}]}, "Give true or false"),
        ({"a": [{"wildcard": "a**b"}]}, "two wildcards in a row at position 1"),
        ({"a": [{"wildcard": "a\\b"}]}, "stands before neither * nor \\"),
        ({"a": [{"wildcard": "a\\"}]}, "stands before neither"),
        ({"a": [{"wildcard": 1}]}, "Give a text"),
        ({"a": [{"numeric": []}]}, "lower limit first"),
        ({"a": [{"numeric": ["=", "5"]}]}, "from -5e9 to 5e9"),
        ({"a": [{"numeric": ["!=", 5]}]}, "lower limit first"),
        ({"a": [{"numeric": ["<", 5, ">", 1]}]}, "lower limit first"),
        ({"a": [{"numeric": [">", 5, "<", 5]}]}, "the lower limit is not below"),
        ({"a": [{"numeric": ["=", 5, "<", 6]}]}, "lower limit first"),
        ({"a": [{"numeric": [">", 5_000_000_001]}]}, "from -5e9 to 5e9"),
        ({"a": [{"numeric": [">", 0.0000001]}]}, "at most six decimals"),
        ({"a": [{"numeric": [">", True]}]}, "from -5e9 to 5e9"),
        ({"a": [{"numeric": [">", 1, "<"]}]}, "lower limit first"),
        ({"a": [{"cidr": "10.0.0.0"}]}, "Give a network"),
        ({"a": [{"cidr": "10.0.0.0/32"}]}, "of fewer bits"),
        ({"a": [{"cidr": "10.0.0.256/8"}]}, "Give a network"),
        ({"a": [{"cidr": "10.0.0.0/-1"}]}, "Give a network"),
        ({"a": [{"cidr": "host/8"}]}, "Give a network"),
        ({"a": [{"anything-but": []}]}, "not both"),
        ({"a": [{"anything-but": ["x", 1]}]}, "not both"),
        ({"a": [{"anything-but": None}]}, "not both"),
        ({"a": [{"anything-but": [True]}]}, "not both"),
        ({"a": [{"anything-but": {"numeric": ["=", 1]}}]}, "anything-but takes no 'numeric'"),
        ({"a": [{"anything-but": {"prefix": ""}}]}, "an empty prefix"),
        ({"a": [{"anything-but": {"suffix": ["a", ""]}}]}, "an empty suffix"),
        ({"a": [{"anything-but": {"wildcard": "**"}}]}, "two wildcards"),
        ({"a": [{"anything-but": {"wildcard": []}}]}, "empty list"),
        ({"a": [{"anything-but": {"prefix": "a", "suffix": "b"}}]}, "this has 2"),
        ({"a": [1], "$or": [{"a": [2]}, {"b": [3]}]}, "named twice"),
        ({"a.b": [1], "a": {"b": [2]}}, "named twice"),
        ({"$or": [{"a": [1]}]}, "$or takes a list of two or more objects"),
        ({"$or": [{"x": {"prefix": ["a"]}}, {"b": [1]}]}, "cannot be the name of a field inside $or"),
        ({"$or": []}, "an empty list"),
    ],
)
def test_patterns_refused_by_the_service_are_refused(pattern: Any, says: str) -> None:
    with pytest.raises(PatternError) as caught:
        matches(pattern, {"a": 1})
    assert says in str(caught.value)


def test_too_many_combinations_and_too_long() -> None:
    ten = [{chr(97 + place): [1]} for place in range(10)]
    three = {str(place): {"$or": ten} for place in range(3)}
    assert len(compiled(three)) == MAX_COMBINATIONS
    with pytest.raises(PatternError, match="more than 1,000 combinations"):
        compiled({**three, "3": {"$or": ten[:2]}})
    around = len('{"a":[""]}')
    assert compiled({"a": ["ü" * (2_048 - around)]})  # characters as they are sent, not bytes and not escapes
    with pytest.raises(PatternError, match="2,049 characters; a rule takes at most 2,048"):
        compiled({"a": ["x" * (2_049 - around)]})
    deep: Any = [1]
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(PatternError, match="nested more than"):
        compiled(deep)


@pytest.mark.parametrize("text", ["{", "[1", '{"a": NaN}', "[" * 100_000, "x" * 2_000_000, b"\xff\xfe"])
def test_invalid_event_texts_are_refused(text: str | bytes) -> None:
    with pytest.raises(UserError, match=r"event\.json"):
        loads(text, "event.json")


def test_numbers_are_compared_as_written() -> None:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html: 300, 300.0, 3.0e2 differ."""
    spellings = ["300", "300.0", "3.0e2"]
    for one in spellings:
        for other in spellings:
            pattern, event = loads(f'{{"a": [{one}]}}', ""), loads(f'{{"a": {other}}}', "")
            assert matches(pattern, event) == (one == other)
            assert matches({"a": [{"numeric": ["=", loads(one, "")]}]}, event)
            assert not matches({"a": [{"anything-but": loads(one, "")}]}, event)


@pytest.mark.parametrize(
    ("pattern", "yes"),
    [
        ({"first": ["Ada"], "last": ["Lovelace"]}, True),
        ({"first": ["Ada"], "last": ["Turing"]}, False),
        ({"first": ["Alan", "Ada"], "last": ["Turing"]}, True),
        ({"first": [{"anything-but": "Ada"}], "last": ["Lovelace"]}, False),
        ({"first": [{"anything-but": "Ada"}]}, True),
        ({"born": [{"exists": False}]}, True),
    ],
)
def test_fields_of_a_list_of_objects_match_in_one_object(pattern: Any, yes: bool) -> None:
    assert matches({"people": pattern}, PEOPLE) == yes
    assert matches({"people": pattern}, {"people": [[PEOPLE["people"][0]], [PEOPLE["people"][1]]]}) == yes


def test_absence_is_judged_in_the_object_matched_by_earlier_fields() -> None:
    event = {"list": [{"a": 1}, {"a": 2, "b": 3}]}
    assert matches({"list": {"a": [1], "b": [{"exists": False}]}}, event)
    assert not matches({"list": {"a": [2], "b": [{"exists": False}]}}, event)
    for field in ({"a": [2], "b": [{"exists": False}]}, {"b": [{"exists": False}]}):
        (why,) = explain({"list": field}, event)
        assert str(why) == 'list.b is 3; wanted: {"exists": false}'


@pytest.mark.slow
def test_many_objects_are_matched_quickly() -> None:
    rows = [{"a": place, "b": place + 1, "c": place + 2} for place in range(300)]
    event = {"x": rows, "y": rows, "z": rows}
    wanted = {"a": [{"numeric": [">=", 0]}], "b": [{"numeric": [">=", 0]}], "c": [-1]}
    assert not matches({"x": wanted, "y": wanted, "z": wanted}, event)
    fitting = {**wanted, "c": [{"exists": True}]}
    assert matches({"x": fitting, "y": fitting, "z": fitting}, event)


def test_a_deeply_nested_event_is_matched() -> None:
    deep: Any = "end"
    for _ in range(3_000):
        deep = [deep]
    assert matches({"a": ["end"]}, {"a": deep})


@pytest.mark.parametrize(
    ("test", "yes", "no"),
    [
        ({"wildcard": "a*"}, ["a", "ab"], ["ba", "", 1]),
        ({"wildcard": "*"}, ["", "x", "*"], [1, None, True]),
        ({"wildcard": "a\\*b"}, ["a*b"], ["axb", "a\\*b"]),
        ({"wildcard": "a\\\\*"}, ["a\\", "a\\b"], ["a*", "ab"]),
        ({"wildcard": "*a*b*"}, ["ab", "xaxbx"], ["ba", "b", "a"]),
        ({"wildcard": "ab*ba"}, ["abba", "ab-ba"], ["aba"]),
        ({"wildcard": "a*b*b"}, ["abb", "a-b-b"], ["ab", "a-b"]),
        ({"wildcard": "plain?[x]"}, ["plain?[x]"], ["plainx"]),
        ({"equals-ignore-case": "Straße"}, ["strasse".replace("ss", "ß"), "STRASSE"], ["Strase"]),
        ({"prefix": {"equals-ignore-case": "ÄB"}}, ["äbc", "Äb"], ["ab"]),
        ({"suffix": {"equals-ignore-case": ".PNG"}}, ["a.png", ".PnG"], ["png", "a.png "]),
        ({"prefix": ""}, ["", "x"], [1, None, False]),
        ({"cidr": "10.1.0.0/16"}, ["10.1.255.9"], ["10.2.0.0", "10.1", 10, "::10.1.0.1 "]),
        ({"cidr": "10.1.2.3/16"}, ["10.1.0.1", "::ffff:a01:1"], ["10.2.0.1", "::ffff:a02:1"]),
        (
            {"cidr": "2001:db8::/32"},
            ["2001:db8::1", "2001:0DB8:0:0::9"],
            ["2001:db9::", "10.1.1.1", "2001:db8::1%eth0"],
        ),
        ({"exactly": "a"}, ["a"], ["A"]),
        ({"anything-but": {"wildcard": ["*a", "b*"]}}, ["c", 1, None], ["xa", "bx"]),
        ({"anything-but": [1, 2.5]}, [3, "1", None, True, 2.50000001], [1, 1.0, 2.5]),
        ({"numeric": [">", -1.5, "<=", 5e9]}, [0, -1.4, 5_000_000_000], [-1.5, 5_000_000_001, "0", True, None]),
        (None, [None], ["null", "", 0, False]),
        ("", [""], [None, " "]),
        (True, [True], [1, "true"]),
    ],
)
def test_operators(test: Any, yes: list[Any], no: list[Any]) -> None:
    for value in yes:
        assert matches({"a": [test]}, {"a": value}), value
        assert matches({"a": [test]}, {"a": ["§", value]}), value
    for value in no:
        assert not matches({"a": [test]}, {"a": value}), value


def test_a_field_named_or_is_matched() -> None:
    assert matches({"$or": {"a": [1]}}, {"$or": {"a": 1}})
    assert matches({"$or": [{"numeric": ["=", 1]}, {"prefix": "a"}]}, {"$or": "abc"})


def test_nested_or() -> None:
    pattern = {
        "s": [1],
        "$or": [{"a": [1]}, {"b": [1], "$or": [{"c": [1]}, {"d": {"$or": [{"e": [1]}, {"f": [1]}]}}]}],
    }
    assert matches(pattern, {"s": 1, "a": 1})
    assert matches(pattern, {"s": 1, "b": 1, "d": {"f": 1}})
    assert not matches(pattern, {"s": 1, "b": 1, "d": {"g": 1}})
    assert not matches(pattern, {"a": 1, "b": 1, "c": 1})


def test_a_mismatch_explains_the_nearest_branch() -> None:
    pattern = {"$or": [{"a": [1], "b": [1]}, {"c": ["x", {"prefix": "y"}]}]}
    (why,) = explain(pattern, {"a": 2, "b": 3, "c": ["z", 1.50]})
    assert (why.field, why.given) == ("c", ("z", 1.5))
    assert str(why) == 'c is "z", 1.5; wanted: "x" or {"prefix": "y"}'
    assert str(explain({"d": [{"exists": True}]}, {})[0]) == 'd is absent; wanted: {"exists": true}'
    (why,) = explain({"people": {"first": ["Ada"], "last": ["Turing"]}}, PEOPLE)
    assert why.apart and "not in the same object" in str(why)


# Agreement with moto's matcher, on what both do as documented: moto looks into no list of objects, and takes objects
# and empty lists for values.
_words = st.sampled_from(["a", "ab", "abc", "b", "", "A", "Ab", "a*b", "1"])
_scalars = st.one_of(_words, st.integers(-3, 30), st.none())
_values = st.one_of(_scalars, st.lists(_scalars, min_size=1, max_size=3))
_names = st.sampled_from(["x", "y", "z"])
_events = st.fixed_dictionaries(
    {"d": st.dictionaries(_names, _values, max_size=3)}, optional={"x": _values, "y": _values, "z": _values}
)
_some = st.lists(_words.filter(bool), min_size=1, max_size=2)
_tests = st.one_of(
    _scalars,
    st.fixed_dictionaries({"prefix": _words}),
    st.fixed_dictionaries({"suffix": _words}),
    st.fixed_dictionaries({"prefix": st.fixed_dictionaries({"equals-ignore-case": _words})}),
    st.fixed_dictionaries({"equals-ignore-case": _words}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.fixed_dictionaries({"wildcard": st.sampled_from(["a*", "*b", "*", "a*c", "a\\*b"])}),
    st.fixed_dictionaries({"anything-but": st.one_of(_some, st.lists(st.integers(0, 9), min_size=1, max_size=2))}),
    st.fixed_dictionaries({"anything-but": st.fixed_dictionaries({"prefix": _some})}),
    st.fixed_dictionaries({"numeric": st.sampled_from([["=", 1], [">", 1, "<=", 9], ["<", 0], [">=", 2]])}),
)
_fields = st.dictionaries(_names, st.lists(_tests, min_size=1, max_size=3), min_size=1, max_size=2)
_patterns = st.one_of(
    _fields,
    st.builds(lambda outer, inner: {**outer, "d": inner}, _fields, _fields),
    st.builds(lambda one, two, inner: {"$or": [one, two], "d": inner}, _fields, _fields, _fields),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(pattern=_patterns, event=_events)
def test_agrees_with_moto(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    from moto.events.models import EventPattern

    assert matches(pattern, event) == EventPattern(None, pattern).matches_event(event)  # type: ignore[arg-type]


_any_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.text(max_size=4), st.just("$or")), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(pattern=_any_json, event=st.dictionaries(st.text(max_size=4), _any_json, max_size=4))
def test_any_pattern_is_matched_or_refused(pattern: Any, event: dict[str, Any]) -> None:
    try:
        found = explain(pattern, event)
    except PatternError as error:
        assert str(error).startswith("Event pattern")
        return
    assert matches(pattern, event) == (not found)
    assert matches(pattern, loads(json.dumps(event), "")) == (not found)


@settings(max_examples=200, deadline=None)
@given(event=_events, path=_names)
def test_a_value_matches_itself_and_its_negation_does_not(event: dict[str, Any], path: str) -> None:
    value = event["d"].get(path)
    if isinstance(value, str):
        assert matches({"d": {path: [value]}}, event)
        assert not matches({"d": {path: [{"anything-but": [value]}]}}, event)
        assert matches({"d": {path: [{"equals-ignore-case": value.swapcase()}]}}, event)


def test_a_duplicate_field_is_refused_with_its_position() -> None:
    with pytest.raises(UserError, match=r"event\.json, line 2, column 2: key 'a' is given twice"):
        loads('{"a": 1,\n "a": 2}', "event.json")
