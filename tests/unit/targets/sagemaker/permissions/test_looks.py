"""A step that looks at a source may list it, under a role of its own."""

from __future__ import annotations

import pytest

from drivetrain import Deployment, Parameter, Pipeline, Schedule, step
from drivetrain.components import Input, Output, component
from drivetrain.components.read_source import read_source
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import derive

ROLE = "arn:aws:iam::123456789012:role/"


@component(job="training")
def fit(data: Input, model: Output) -> None: ...


@pytest.mark.parametrize("source", ["s3://lake/raw/", "parameter", "delta:s3://lake/raw/"])
def test_a_look_may_list_what_a_step_of_another_role_reads(source: str) -> None:
    raw = Parameter.string("Raw", "s3://lake/raw/")
    place = {"bucket": "acme", "region": "eu-west-1", "role": f"{ROLE}own", "roles": {"training": f"{ROLE}training"}}
    read = step(read_source, source=source) if source.startswith("delta") else None
    data = read["output"] if read else raw if source == "parameter" else source
    pipeline = Pipeline(
        name="nightly",
        parameters=[raw],
        steps=[*([read] if read else []), step(fit, data=data)],
        triggers=[Schedule(name="night", rate="1 day")],
        deployment=Deployment(targets={"sagemaker": place}),
    )
    derived = derive(compile_pipeline(pipeline, here=True).definition, Names.of(pipeline, None))
    (policy,) = (policy for policy in derived.policies if policy.name == "own")
    (listing,) = (s for s in policy.statements if "arn:aws:s3:::lake" in s.resources)
    assert listing.actions == ("s3:ListBucket",)
    assert "raw/" in str(listing.conditions)
