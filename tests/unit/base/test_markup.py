from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.markup import Markup, el, escape, join


def test_untrusted_text_cannot_become_markup() -> None:
    made = el("p", "<script>alert(1)</script>", title='"><img onerror=x>')
    assert made == ('<p title="&quot;&gt;&lt;img onerror=x&gt;">&lt;script&gt;alert(1)&lt;/script&gt;</p>')


def test_trusted_markup_is_not_escaped() -> None:
    assert el("p", el("b", "x"), [" & ", None, 3]) == "<p><b>x</b> &amp; 3</p>"
    assert join([Markup("<br>"), "<"], "|") == "<br>|&lt;"


def test_attributes() -> None:
    assert el("line", x1=1.0, y1=2.25, class_="a", stroke_width=2, hidden=None, open=True) == (
        '<line x1="1" y1="2.2" class="a" stroke-width="2" open=""/>'
    )


def test_control_characters_and_lone_surrogates_are_replaced() -> None:
    assert escape("a\x00b\x1bc\ud800d\n") == "a�b�c?d\n"


def test_characters_that_change_the_writing_direction_are_replaced() -> None:
    """They would show a text in another order than it has: this one as "modelexe.jpg"."""
    assert escape("model\u202egpj.exe") == "model\ufffdgpj.exe"
    directions = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    assert escape(directions) == "\ufffd" * len(directions)
    assert escape("שלום, العالم") == "שלום, العالم"


@given(st.text(), st.text())
def test_any_text_survives_as_text(content: str, attribute: str) -> None:
    parsed = ElementTree.fromstring(el("p", content, title=attribute))
    assert "<" not in escape(content) and '"' not in escape(attribute)
    # XML reads a carriage return as a line's end; everything else that it can hold comes back as it was.
    if content.isprintable():
        assert (parsed.text or "") == content
