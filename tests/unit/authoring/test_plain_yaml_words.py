"""The usual mistakes in settings files, in plain words."""

import pytest

from drivetrain.authoring.plain_yaml import load_yaml
from drivetrain.base.errors import UserError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\n  b: 2", "line 2, column 4: not YAML: line 2 is indented deeper than line 1."),
        ("a: 1\n\n  b: 2", "line 3, column 4: not YAML: line 3 is indented deeper than line 1."),
        ('a: "x\nb: 2\n', "line 3, column 1: not YAML: the quote that opens in line 1 is never closed."),
        ("b: 2\na: 'x", "line 2, column 6: not YAML: the quote that opens in line 2 is never closed."),
        ("a: [1, 2\nb: 3", "the [ that opens in line 1 is never closed."),
        ("a: {x: 1\nb: 3", "the { that opens in line 1 is never closed."),
        ("a:1\nb: 2", "line 1 is no `name: value`; a blank follows the colon."),
        ("a: b: c", "two of `: ` in one line; put a value that holds one in quotes."),
        ("a: @x", "a value that begins with @ needs quotes."),
        ("a:\n  - 1\n - 2", "line 3 does not line up with the lines above it."),
        ("a:\n\tb: 1", "found character that cannot start any token. Indent with spaces, not with tabs."),
        ("{a: 1}}", "not YAML: did not find expected <document start>."),
        (":\n :\n: [", "not YAML"),
    ],
)
def test_mistakes_in_plain_words(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        load_yaml(text, "p.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('a: "x: y"\nb: 2', {"a": "x: y", "b": 2}),
        ("a:\n  b: 2", {"a": {"b": 2}}),
        ("a: http://x\nb: 12:30", {"a": "http://x", "b": "12:30"}),
        ("a: x\n  y", {"a": "x y"}),
        ("a: [1,\n  2]", {"a": [1, 2]}),
    ],
)
def test_valid_yaml_that_looks_similar_is_read(text: str, value: object) -> None:
    assert load_yaml(text, "p.yaml") == value
