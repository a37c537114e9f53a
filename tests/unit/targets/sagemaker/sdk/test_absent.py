"""What is said, and what still works, where the SageMaker SDK is not installed, or an older version is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker import images
from drivetrain.targets.sagemaker.sdk import definition_to_sagemaker_sdk
from drivetrain.targets.sagemaker.sdk.modules import installed, registry, sdk_image_uri

DEFINITION: dict[str, Any] = {"Steps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}]}
CALLS: dict[str, Callable[[], Any]] = {
    "pipeline": lambda: definition_to_sagemaker_sdk("stop", DEFINITION, region="eu-west-1"),
    "image": lambda: sdk_image_uri("pytorch", "2.8", "eu-west-1", "ml.m5.large"),
    "registry": lambda: registry("us-iso-east-1"),
}


@pytest.fixture(params=["none", "version 2"], autouse=True)
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An import path on which nothing, or an SDK without sagemaker.mlops, is found."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "sagemaker"}
    if request.param == "version 2":
        (tmp_path / "sagemaker").mkdir()
        (tmp_path / "sagemaker" / "__init__.py").write_text("")
    kept = [folder for folder in sys.path if not (Path(folder) / "sagemaker").exists()]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *kept])
    for name in before:
        del sys.modules[name]
    yield
    sys.modules.pop("sagemaker", None)
    sys.modules.update(before)


def test_the_absent_sdk_is_not_taken_for_installed() -> None:
    assert not installed()


@pytest.mark.parametrize("call", CALLS)
def test_the_installation_of_the_sdk_is_explained(call: str) -> None:
    with pytest.raises(UserError, match=r"Version 3 .* is not installed here\..*pip install 'drivetrain\[sagemaker\]'"):
        CALLS[call]()


def test_what_images_json_knows_needs_no_sdk() -> None:
    assert images.image_uri("pytorch", "2.13", "eu-west-1", "ml.m5.large").endswith("sagemaker")


def test_an_unknown_version_or_region_is_refused_as_ever() -> None:
    with pytest.raises(UserError, match=r"No stock image of pytorch 2\.8 is known"):
        images.image_uri("pytorch", "2.8", "eu-west-1", "ml.m5.large")
    with pytest.raises(UserError, match=r"No account for stock images is documented for region 'us-iso-east-1'"):
        images.stock_image("us-iso-east-1", gpu=False)
