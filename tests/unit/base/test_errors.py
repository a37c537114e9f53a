"""The name that was probably meant."""

import pytest

from drivetrain.base.errors import SpecError, did_you_mean, nearest


def test_a_notebook_shows_user_errors_in_one_line() -> None:
    assert SpecError("digits.py, line 3: no.")._render_traceback_() == ["error: digits.py, line 3: no."]


@pytest.mark.parametrize(
    ("given", "names", "meant"),
    [
        ("dpp", ["auto", "ddp", "dp", "pp", "pp_ddp"], "ddp"),
        ("acc", ["accuracy", "accuracy_class_0", "mcc"], "accuracy"),
        ("Tran", ["Train", "Transform"], "Train"),
        ("LABEL", ["label", "table"], "label"),
        ("scoring", ["lr_scaling", "epochs"], None),
        ("x", ["y"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_name_is_suggested(given: str, names: list[str], meant: str | None) -> None:
    assert nearest(given, names) == meant


def test_the_nearest_of_many_names_is_suggested_and_a_dozen_are_listed() -> None:
    said = did_you_mean("column_1234", [f"column_{i}" for i in range(2000)])
    assert said.startswith("Did you mean 'column_1") and said.endswith("... (2000 in all).")
    assert did_you_mean("a", [], none="It is empty.") == "It is empty."
