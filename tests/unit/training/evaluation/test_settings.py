from __future__ import annotations

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.evaluation.settings import Settings, parser

FOLDERS = ["--model=m", "--data=d", "--metrics=n"]


def read(*words: str) -> Settings:
    given = vars(parser("").parse_args([*FOLDERS, *words]))
    return Settings(**{name: value for name, value in given.items() if name in Settings.__dataclass_fields__})


def test_the_command_line_has_every_field() -> None:
    assert read() == Settings()
    found = read("--batch-size=7", "--scoring=f1, top_k(k=2)", "--predictions=True", "--slices=a, b")
    assert found == Settings(batch_size=7, scoring="f1, top_k(k=2)", predictions=True, slices="a, b")
    assert found.columns == ["a", "b"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--batch-size=0", "batch_size=0; allowed are whole numbers from 1"),
        ("--batch-size=x", "'x' is no whole number"),
        ("--mode=histogramm", "no mode 'histogramm'. Did you mean 'histogram'"),
        ("--bootstrap=-1", "bootstrap=-1; allowed are whole numbers from 0"),
        ("--bootstrap=1", "bootstrap=1; allowed are whole numbers from 2"),
        ("--confidence=1", "confidence=1.0; allowed are numbers above 0 and below 1"),
        ("--confidence=nan", "confidence=nan; allowed are numbers above 0 and below 1"),
        ("--seed=-1", "seed=-1; allowed are whole numbers from 0"),
        ("--slices=a,b,a", "names 'a' twice"),
        ("--predictions=maybe", "'maybe' is neither True nor False"),
        ("--sclices=a", "no option '--sclices'. Did you mean '--slices'"),
    ],
)
def test_invalid_settings_are_one_error(word: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read(word)
    assert message in str(raised.value)
