"""Bytes that are not UTF-8 are shown as they read in the encodings that they may be of."""

from __future__ import annotations

import pytest

from drivetrain.data.encodings import advice


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Köln", "cp1252"),
        ("déjà vu", "cp1252"),
        ("東京ソ能表", "cp932"),
        ("ひらがな", "cp932"),
        ("大阪", "euc-jp"),
        ("北京市", "gb18030"),
        ("臺北", "big5"),
        ("서울", "euc-kr"),
        ("Москва", "cp1251"),
        ("Москва", "koi8-r"),
    ],
)
def test_the_right_encoding_is_among_the_suggested_ones(text: str, encoding: str) -> None:
    said = advice(text.encode(encoding), "a.csv")
    assert f"{text!r} in {encoding}" in said
    assert said.endswith(" -t utf-8 a.csv")


def test_bytes_that_no_encoding_reads_have_no_suggestion() -> None:
    said = advice(b"\x00\xff\xff\x81", "a.csv")
    assert said == "Save the file as UTF-8 from the encoding that it has: iconv -f ENCODING -t utf-8 a.csv"
