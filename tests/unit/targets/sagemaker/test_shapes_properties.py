"""`Steps.<name>.<path>`: what it leads to, and what is said of one that leads nowhere."""

from __future__ import annotations

import pytest

from drivetrain.targets.sagemaker.document.service import UnknownPropertyError, property_type


@pytest.mark.parametrize(
    ("step_type", "path", "expected"),
    [
        ("Training", "ModelArtifacts.S3ModelArtifacts", "String"),
        ("Training", "ModelArtifacts", "Object"),
        ("Training", "ResourceConfig.InstanceCount", "Integer"),
        ("Training", "EnableManagedSpotTraining", "Boolean"),
        ("Training", "FinalMetricDataList['loss'].Value", "Float"),
        ("Training", "HyperParameters['epochs']", "String"),
        ("Training", "InputDataConfig", "List"),
        ("Training", "Outcome", None),
        ("Processing", 'ProcessingOutputConfig.Outputs["train"].S3Output.S3Uri', "String"),
        ("Processing", "ProcessingOutputConfig.Outputs[0].S3Output.S3Uri", "String"),
        ("Processing", "PropertyFiles.metrics", None),
        ("RegisterModel", "ModelPackageArn", "String"),
        ("Tuning", "BestTrainingJob.TrainingJobName", "String"),
        ("Tuning", "TrainingJobSummaries[0].TrainingJobName", "String"),
        ("Model", "ModelName", "String"),
        ("Transform", "TransformOutput.S3OutputPath", "String"),
        ("Lambda", "OutputParameters['count']", None),
        ("AutoML", "BestCandidateProperties.ModelInsightsJsonReportPath", None),
    ],
)
def test_the_type_of_a_property(step_type: str, path: str, expected: str | None) -> None:
    assert property_type(step_type, path) == expected


@pytest.mark.parametrize(
    ("path", "given", "allowed"),
    [
        ("ModelArtefacts.S3", "there is no property 'ModelArtefacts'", "Did you mean 'ModelArtifacts'?"),
        ("ModelArtifacts.S3Uri", "there is no property 'S3Uri'", "S3ModelArtifacts"),
        ("TrainingJobName.More", "there is no property 'More'", "What stands before it has none."),
        ("ModelArtifacts[", "'ModelArtifacts[' is not a path", "Write it like"),
        ("", "'' is not a path", "Write it like"),
    ],
)
def test_a_path_to_nothing_is_explained(path: str, given: str, allowed: str) -> None:
    with pytest.raises(UnknownPropertyError) as caught:
        property_type("Training", path)
    assert caught.value.given == given
    assert allowed in caught.value.allowed
