"""A training that was interrupted goes on only where what it reads is made as before."""

from __future__ import annotations

from typing import Any

from drivetrain.targets.sagemaker.run.resume import other_training


def training(uri: str, *words: str) -> dict[str, Any]:
    source = {"S3DataSource": {"S3Uri": uri}}
    return {
        "AlgorithmSpecification": {"ContainerArguments": list(words)},
        "InputDataConfig": [{"ChannelName": "data", "DataSource": source}],
    }


def processing(uri: str, *words: str) -> dict[str, Any]:
    return {
        "AppSpecification": {"ContainerArguments": list(words)},
        "ProcessingInputs": [{"InputName": "data", "S3Input": {"S3Uri": uri}}],
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return list(other_training._data(old, new))  # pyright: ignore[reportPrivateUsage]


def test_a_processing_job_that_makes_the_data_must_stay_the_same() -> None:
    assert len(differences(processing("s3://b/one", "a"), processing("s3://b/two", "b"))) == 2
    assert differences(processing("s3://b/one", "a"), processing("s3://b/one", "a")) == []


def test_a_training_before_it_may_read_other_data() -> None:
    assert differences(training("s3://b/one", "a"), training("s3://b/two", "b")) == []
    assert differences(training("s3://b/one", "--code"), training("s3://b/one", "--code")) == []
