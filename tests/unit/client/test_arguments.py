"""Settings given as Python values: they arrive as they are, and so they do from the text that is kept of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import drivetrain as dt
from drivetrain.authoring.settings import build
from drivetrain.operations.operands import as_overrides


class Colour(Enum):
    NONE = "null"
    RED = "red"


class Inner(dt.Settings):
    x: int = 1
    y: str = ""


@dataclass(frozen=True)
class Point:
    x: int
    name: str = ""


class Given(dt.Settings):
    s: str = "default"
    o: str | None = "default"
    anything: Any = None
    colour: Colour = Colour.RED
    inner: Inner = Inner()
    point: Point | None = None
    rate: float = 1.0
    rates: dict[str, Any] | None = None
    data: bytes = b""
    sizes: tuple[int, ...] = ()
    place: Path = Path()


TEXTS = [
    "  x ",
    "é\n\tz",
    "",
    "null",
    "~",
    "'",
    '"x"',
    "1",
    "yes",
    "2026-01-01",
    "a: b",
    '{"a": 1}',
    "# x",
    "a=b",
    "---",
]


@pytest.mark.parametrize(
    "text", [*TEXTS, "\N{GRINNING FACE} \x7f\x85\u2028\ufeff\0", "\\ud83d\\n", "x\r\ny", "x" * 2000]
)
def test_texts_are_passed_unchanged(text: str) -> None:
    given = {"s": text, "o": text, "anything": text}
    for built in (build(Given, None, [], {}, given), build(Given, None, as_overrides(given), {})):
        assert (built.s, built.o, built.anything) == (text, text, text)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"o": None}, "o", None),
        ({"colour": Colour.NONE}, "colour", Colour.NONE),
        ({"inner": Inner(x=2, y="null")}, "inner", Inner(x=2, y="null")),
        ({"inner": Inner(x=2, y="null"), "inner.x": 3}, "inner", Inner(x=3, y="null")),
        ({"point": Point(1)}, "point", Point(1)),
        ({"point": Point(1, "a"), "point.x": 2}, "point", Point(2, "a")),
        ({"deployment": dt.Deployment(target="kubeflow")}, "deployment", dt.Deployment(target="kubeflow")),
        ({"deployment.target": "kubeflow"}, "deployment", dt.Deployment(target="kubeflow")),
        ({"rate": 1e-5}, "rate", 1e-5),
        ({"rates": {"a": 1e-5, "b": "null"}}, "rates", {"a": 1e-5, "b": "null"}),
        ({"data": b"x"}, "data", b"x"),
        ({"sizes": (1, 2)}, "sizes", (1, 2)),
        ({"place": Path("null")}, "place", Path("null")),
        ({"s": Path("null")}, "s", "null"),
        ({"s": {"tensor": 2}}, "s", '{"tensor": 2}'),
    ],
)
def test_objects_are_passed_unchanged(given: dict[str, Any], name: str, value: object) -> None:
    assert getattr(build(Given, None, [], {}, given), name) == value
    assert getattr(build(Given, None, as_overrides(given), {}), name) == value


def test_a_given_dict_is_not_modified() -> None:
    inner = {"x": 2}
    assert build(Given, None, [], {}, {"inner": inner, "inner.y": "z"}).inner == Inner(x=2, y="z")
    assert inner == {"x": 2}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"s": 5}, r"Setting s \(from the call\) is 5: give a text"),
        ({"s": b"x"}, r"Setting s \(from the call\) is b'x': give a text, such as VALUE\.decode\(\)\."),
        ({"rate": True}, r"Setting rate \(from the call\) is True: give a number\.$"),
        ({"colour": "blue"}, r"Setting colour \(from the call\) is 'blue': Input should be 'null' or 'red'"),
        ({"colr": 1}, r"Setting colr \(from the call\) does not exist\. Did you mean 'colour'"),
    ],
)
def test_wrong_arguments_name_the_call(given: dict[str, Any], said: str) -> None:
    with pytest.raises(dt.UserError, match=said):
        build(Given, None, [], {}, given)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            object(),
            r"Setting anything \(from the call\) is <object .*: it has no JSON form.* Give text, numbers, lists",
        ),
        (b"\xff", "it has no JSON form"),
        ("\ud800", "A run keeps its settings as text"),
        (10**2000, "A run keeps its settings as text"),
    ],
)
def test_values_without_a_text_form_are_refused(value: object, said: str) -> None:
    with pytest.raises(dt.UserError, match=said):
        as_overrides({"anything": value})


def test_values_changed_by_their_text_form_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keeps_a_secret.py"
    file.write_text(
        "from pydantic import SecretStr\nimport drivetrain as dt\n"
        "def hidden(word: SecretStr = SecretStr('')) -> dt.Pipeline:\n    raise SystemExit(word.get_secret_value())\n"
        "def shown(word: SecretStr) -> dt.Pipeline:\n    return dt.Pipeline(name='shown')\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dt.UserError, match=r"ended the program \(sys.exit\('said'\)\)"):
        dt.run(f"{file}:hidden", word=SecretStr("said"))
    with pytest.raises(dt.UserError, match=r"run\(word=\.\.\.\): a run keeps its settings as text"):
        dt.run(f"{file}:shown", word=SecretStr("said"))
