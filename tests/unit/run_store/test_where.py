"""The grammar of conditions: what they mean, and that a mistake is shown with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.run_store.where import All, Any, Comparison, Not, names_in, parse


def test_and_binds_closer_than_or_and_words_may_be_quoted() -> None:
    found = parse("accuracy > 0.98 or tag.team = 'my team' AND not (status==failed)")
    assert isinstance(found, Any)
    first, second = found.parts
    assert isinstance(first, Comparison) and (first.name, first.operator, first.value) == ("accuracy", ">", "0.98")
    assert isinstance(second, All) and isinstance(second.parts[1], Not)
    team, status = second.parts[0], second.parts[1].of
    assert isinstance(team, Comparison) and (team.name, team.value) == ("tag.team", "my team")
    assert isinstance(status, Comparison) and (status.operator, status.value) == ("=", "failed")
    assert names_in("a = 1 or (b > 2 and not a < 3)") == ["a", "b"] and names_in(" ") == []
    none = parse("tag.x != none")
    assert isinstance(none, Comparison) and none.value is None
    text = parse("x = 'none'")
    assert isinstance(text, Comparison) and text.value == "none"
    quoted = parse("""note = 'it''s "so"' or note = "it's ""so""\"""")
    assert isinstance(quoted, Any) and {part.value for part in quoted.parts if isinstance(part, Comparison)} == {
        """it's "so\""""
    }


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("", "a comparison such as accuracy > 0.98 is expected here, not the end", 0),
        ("accuracy", "one of = != < <= > >= ~ is expected here, not the end", 8),
        ("accuracy >", "a value: a number, a word or a text in quotes, is expected here, not the end", 10),
        ("accuracy > 1 epochs = 2", "'and', 'or' or the end is expected here, not 'epochs'", 13),
        ("a = 1 and", "a comparison such as accuracy > 0.98 is expected here, not the end", 9),
        ("(a = 1", "this parenthesis is not closed", 0),
        ("a = 'x", "the quote is not closed", 4),
        ("a = 'x''", "the quote is not closed", 4),
        ("a = 1)", "'and', 'or' or the end is expected here, not ')'", 5),
        ("a < none", "none is compared by = or !=", 2),
        ("a ! b", "'!' cannot stand here", 2),
    ],
)
def test_a_mistake_is_shown_with_its_place(text: str, said: str, at: int) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    first, shown, caret = str(caught.value).split("\n")
    assert said in first and shown == f"  {text}" and caret == "  " + " " * at + "^"


def test_too_long_or_too_deep_conditions_are_refused() -> None:
    with pytest.raises(UserError, match=r"has 2,001 characters. Allowed: 2,000"):
        parse("x" * 2_001)
    with pytest.raises(UserError, match="more than 50 parentheses"):
        parse("(" * 60 + "a = 1" + ")" * 60)


@given(st.text(alphabet="ab =<>!~()'\"\n&|0.9", max_size=40))
def test_any_condition_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse(text)
    except UserError as error:
        assert str(error).startswith("where: ")
