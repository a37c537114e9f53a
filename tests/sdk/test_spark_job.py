"""A transformation on Spark, as PySparkProcessor of SDK v3 writes it and as we do: all that differs, and why.

make test-in ENV=sdk
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.sdk.test_conformance import ABSENT, compare

pytestmark = pytest.mark.sdk

SUBMITTED = "/opt/ml/processing/input/code/start.py"


def test_the_job_is_that_of_pyspark_processor(online: dict[str, Any]) -> None:
    said = online["spark"]
    sdk, ours = said["sdk"], said["ours"]
    found = {each.place: (each.sdk, each.ours) for each in compare(sdk, ours)}
    inputs = {each["InputName"]: each["S3Input"]["S3Uri"] for each in sdk["ProcessingInputs"]}
    # The service assumes it (tests/sdk/test_conformance.py has the same rows).
    managed = {place for place, values in found.items() if place.endswith(".AppManaged") and values == (ABSENT, False)}
    assert len(managed) == 4
    entry = found.pop("AppSpecification.ContainerEntrypoint")
    # Ours looks at the start file's hash first, and then becomes what the SDK starts.
    assert entry[0] == ["smspark-submit", SUBMITTED]
    assert entry[1][:4] == ["python3", "-I", "-S", "-c"] and entry[1][5:7] == [said["start"], SUBMITTED]
    assert entry[1][7:] == entry[0]
    # The SDK brings the start file alone, ours its folder, in which its code is; settings lie at a key of their own.
    code = found.pop("ProcessingInputs.code.S3Input.S3Uri")
    assert code == (f"{said['code']}start.py", said["code"])
    settings = found.pop("ProcessingInputs.conf.S3Input.S3Uri")
    assert settings[0] == inputs["conf"] and settings[1].startswith("s3://drivetrain-local/pipelines/tables/data/")
    assert said["settings"][0] == said["settings"][1] != []
    assert found.pop("Environment.DRIVETRAIN_FRESH") == (ABSENT, {"Get": "Parameters.Fresh"}), "what --fresh sets"
    assert set(found) - managed == set(), {place: found[place] for place in set(found) - managed}
    assert sdk["AppSpecification"]["ImageUri"] == ours["AppSpecification"]["ImageUri"]
