"""What starts a pipeline."""

from __future__ import annotations

from drivetrain.authoring import Pipeline
from drivetrain.spec.pipeline import Alarm, DataDrift, PipelineFinished, QualityDrop, RegistryEvent, Schedule, Upload
from tests.target_features.features import data, feature, of

GROUP = "Starts"


@feature(GROUP, "a schedule")
def schedule() -> Pipeline:
    return of(data(), triggers=[Schedule(name="nightly", cron="0 2 * * ? *")])


@feature(GROUP, "an approval in the model registry")
def registry_event() -> Pipeline:
    return of(data(), triggers=[RegistryEvent(name="approved", group="other")])


@feature(GROUP, "drift of served data, or a drop of quality")
def findings() -> Pipeline:
    return of(data(), triggers=[DataDrift(name="drift", group="other"), QualityDrop(name="drop", group="other")])


@feature(GROUP, "an upload")
def upload() -> Pipeline:
    return of(data(), triggers=[Upload(name="new-data", bucket="bucket", prefix="raw/")])


@feature(GROUP, "another pipeline that has finished")
def pipeline_finished() -> Pipeline:
    return of(data(), triggers=[PipelineFinished(name="after-other", pipeline="other")])


@feature(GROUP, "an alarm")
def alarm() -> Pipeline:
    return of(data(), triggers=[Alarm(name="drift", alarm="drift")])
