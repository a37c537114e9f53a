"""The SageMaker Python SDK (version 3) as a partner, for people who work with it.

    from drivetrain.targets.sagemaker.sdk import to_sagemaker_sdk

    compiled = compile_edited(load("retraining"))       # studio/compiling.py, loading.py
    pipeline = to_sagemaker_sdk(compiled)               # a sagemaker.mlops.workflow.pipeline.Pipeline
    pipeline.upsert()                                   # uploads the code, then creates or updates

Nothing here is needed to compile, plan or apply: the SDK (pip install 'drivetrain[sagemaker]', about 1 GB) is imported
when one of these functions is called, which takes two CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.settings import settings_of

if TYPE_CHECKING:
    from drivetrain.assets.assets import Asset
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.compile.compile import Compiled

__all__ = ["definition_to_sagemaker_sdk", "to_sagemaker_sdk"]


def to_sagemaker_sdk(
    pipeline: Pipeline | Compiled, source: Path | None = None, base: Path | None = None, *, session: Any = None
) -> Any:
    """A Pipeline object of the SDK whose definition() means what `drivetrain compile` writes.

    Its create, update and upsert put the pipeline's code and data into the bucket first; role, description, tags and
    the number of steps at a time are the pipeline's own unless they are given.

    Args:
        pipeline: a compiled pipeline, or one to compile, as the code says it: without the edits made in Studio, which
            `drivetrain.studio.compile_edited` lays on.
        source: as of `compile_pipeline`, for a pipeline that is not compiled.
        base: likewise.
        session: the SDK's Session to work with; by default a new one in the deployment's region, with the credentials
            that boto3 finds and without telemetry.

    Returns:
        `sagemaker.mlops.workflow.pipeline.Pipeline`; parameters and steps can be added to it and taken away.

    Raises:
        UserError: the SDK is not installed, the pipeline does not compile, or the session is of another region.
    """
    from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
    from drivetrain.targets.sagemaker.deploy.desired import check_place

    compiled = pipeline if isinstance(pipeline, Compiled) else compile_pipeline(pipeline, source, base)
    spec = compiled.pipeline
    place = settings_of(spec.deployment)
    return definition_to_sagemaker_sdk(
        spec.name,
        compiled.definition,
        region=place.region,
        session=session,
        assets=compiled.assets,
        before_upload=lambda: check_place(place),
        defaults={
            "role_arn": place.role,
            "description": spec.description,
            "tags": [{"Key": key, "Value": value} for key, value in spec.tags.items()] or None,
            "parallelism_config": spec.max_parallel_steps and {"MaxParallelExecutionSteps": spec.max_parallel_steps},
        },
        bucket=place.bucket,
        prefix=place.prefix,
    )


def definition_to_sagemaker_sdk(
    name: str,
    definition: Mapping[str, Any],
    *,
    region: str,
    session: Any = None,
    assets: Iterable[Asset] = (),
    before_upload: Callable[[], None] | None = None,
    defaults: Mapping[str, Any] | None = None,
    bucket: str | None = None,
    prefix: str | None = None,
) -> Any:
    """A Pipeline object of the SDK for any definition, also one that Drivetrain did not write.

    Conditions and loops become the SDK's own steps; every other step is carried as it is written, with what the SDK
    needs to refer to it: name, type, dependencies and properties. What the SDK has no word for (unknown step types and
    fields) stands in its definition() all the same.

    Args:
        name: the pipeline's.
        definition: Version 2020-12-01.
        region: where the pipeline is to be.
        session: as of `to_sagemaker_sdk`.
        assets: objects to put into the bucket before the pipeline is created or updated.
        before_upload: called before that; what it raises ends the call.
        defaults: of create, update and upsert, by the names of their arguments.
        bucket: of a new session, for definitions that are too long for a request.
        prefix: of keys in it.

    Raises:
        UserError: the SDK is not installed, the definition cannot be read, or the session is of another region.
    """
    from drivetrain.targets.sagemaker.sdk.modules import load, new_session

    from_json(definition, f"the definition of {name}")
    load(region)
    from drivetrain.targets.sagemaker.sdk.pipeline import DefinedPipeline

    session = session or new_session(region, bucket, prefix)
    if session.boto_region_name != region:
        raise UserError(
            f"The SDK's session works in {session.boto_region_name}, and the pipeline is for {region}, where its "
            "images are. Give a session of that region, or set deployment.targets.sagemaker.region."
        )
    return DefinedPipeline(
        name,
        definition,
        session,
        assets=tuple(assets),
        before_upload=before_upload,
        defaults=defaults,
    )
