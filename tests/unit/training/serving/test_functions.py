"""The libraries that a model of functions is of are looked at before it is loaded."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.serving.functions import check_libraries

HERE = {"xgboost": "3.2.5", "tensorflow-cpu": "2.21.0", "scikit-learn": "1.9.1"}


def version(name: str) -> str:
    if name not in HERE:
        raise metadata.PackageNotFoundError(name)
    return HERE[name]


def test_a_library_may_come_by_another_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's image of XGBoost has xgboost, where a training had xgboost-cpu."""
    monkeypatch.setattr(metadata, "version", version)
    check_libraries(Path("model"), {"xgboost-cpu": "3.2.0", "tensorflow": "2.21.1", "scikit-learn": "1.9.0"})


@pytest.mark.parametrize(
    ("name", "wanted", "here"),
    [("xgboost-cpu", "3.1.0", "3.2.5"), ("scikit-learn", "1.8.2", "1.9.1"), ("lightgbm", "4.7.0", "not installed")],
)
def test_another_line_of_versions_is_refused(
    name: str, wanted: str, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(InputError) as caught:
        check_libraries(Path("model"), {name: wanted})
    assert str(caught.value) == (
        f"the model of model was made with {name} {wanted}, which is {here} here. Install it: pip install "
        f"'{name}=={wanted}'; or train again."
    )
