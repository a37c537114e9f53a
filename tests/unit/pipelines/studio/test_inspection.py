"""What is said of a definition shows no secret that stands in it."""

from __future__ import annotations

from drivetrain.pipelines.definition.document import from_json
from drivetrain.pipelines.studio.inspection import inspect


def test_a_refused_value_is_quoted_unless_it_looks_like_a_secret() -> None:
    tags = [{"Key": "team", "Value": "vi$ion"}, {"Key": "password", "Value": 'canary"$'}]
    step = {"Name": "work", "Type": "Processing", "Arguments": {"Tags": tags, "Environment": {"API_TOKEN": ["canary"]}}}
    refused = [line for line in inspect(from_json({"Steps": [step]})).refused if "required" not in line.lower()]
    assert len(refused) == 3, refused
    hidden = "not of the right form; what looks like a secret is not shown."
    assert sum(line.endswith(hidden) for line in refused) == 2, refused
    assert any("Tags[0].Value" in line and "vi$ion" in line for line in refused)
    assert any(line.startswith("work: Arguments.Tags[1].Value: not of") for line in refused)
    assert not any("canary" in line for line in refused)
