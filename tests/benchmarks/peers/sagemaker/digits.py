"""The digits pipeline in the SageMaker SDK: `python digits.py 3` compiles it three times, offline, and prints JSON.

Nothing is uploaded (the images bring their programs), which is the SDK's fastest case.
"""

import hashlib
import json
import sys
import time

started = time.perf_counter()

import boto3  # noqa: E402 - the import is measured
from sagemaker.core.processing import Processor  # noqa: E402
from sagemaker.core.shapes import (  # noqa: E402
    ProcessingInput,
    ProcessingOutput,
    ProcessingS3Input,
    ProcessingS3Output,
)
from sagemaker.core.workflow.conditions import ConditionLessThanOrEqualTo  # noqa: E402
from sagemaker.core.workflow.functions import JsonGet  # noqa: E402
from sagemaker.core.workflow.parameters import ParameterInteger  # noqa: E402
from sagemaker.core.workflow.pipeline_context import PipelineSession  # noqa: E402
from sagemaker.core.workflow.properties import PropertyFile  # noqa: E402
from sagemaker.mlops.workflow.condition_step import ConditionStep  # noqa: E402
from sagemaker.mlops.workflow.fail_step import FailStep  # noqa: E402
from sagemaker.mlops.workflow.pipeline import Pipeline  # noqa: E402
from sagemaker.mlops.workflow.steps import ProcessingStep, TrainingStep  # noqa: E402
from sagemaker.train import ModelTrainer  # noqa: E402
from sagemaker.train.configs import Compute, InputData, OutputDataConfig  # noqa: E402

imported = time.perf_counter()
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/digits:1"
ROLE = "arn:aws:iam::123456789012:role/digits"


def processing(session, name, inputs, outputs, arguments=(), **options):
    processor = Processor(
        role=ROLE,
        image_uri=IMAGE,
        instance_count=1,
        instance_type="ml.m5.large",
        entrypoint=["python3", f"/opt/program/{name}.py"],
        sagemaker_session=session,
    )
    folder = "/opt/ml/processing"
    step_args = processor.run(
        inputs=[
            ProcessingInput(
                input_name=key,
                s3_input=ProcessingS3Input(
                    s3_uri=uri, local_path=f"{folder}/input/{key}", s3_data_type="S3Prefix", s3_input_mode="File"
                ),
            )
            for key, uri in inputs.items()
        ],
        outputs=[
            ProcessingOutput(
                output_name=key,
                s3_output=ProcessingS3Output(
                    s3_uri=f"s3://bucket/digits/{name}/{key}",
                    local_path=f"{folder}/output/{key}",
                    s3_upload_mode="EndOfJob",
                ),
            )
            for key in outputs
        ],
        arguments=list(arguments) or None,
    )
    return ProcessingStep(name=name, step_args=step_args, **options)


def output_of(step, name):
    return step.properties.ProcessingOutputConfig.Outputs[name].S3Output.S3Uri


def build(session):
    max_digits = ParameterInteger(name="max_digits", default_value=4)
    load = processing(session, "load", {}, ["train", "test"])
    trainer = ModelTrainer(
        training_image=IMAGE,
        role=ROLE,
        sagemaker_session=session,
        base_job_name="train",
        compute=Compute(instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=30),
        input_data_config=[InputData(channel_name="data", data_source=output_of(load, "train"))],
        output_data_config=OutputDataConfig(s3_output_path="s3://bucket/digits/train"),
    )
    train = TrainingStep(name="train", step_args=trainer.train())
    model = train.properties.ModelArtifacts.S3ModelArtifacts
    numbers = PropertyFile(name="numbers", output_name="metrics", path="metrics.json")
    evaluate = processing(
        session,
        "evaluate",
        {"data": output_of(load, "test"), "model": model},
        ["metrics"],
        ["--max-digits", max_digits.to_string()],
        property_files=[numbers],
    )
    register = processing(session, "register", {"model": model}, [])
    gate = ConditionStep(
        name="gate",
        conditions=[
            ConditionLessThanOrEqualTo(
                left=JsonGet(step_name=evaluate.name, property_file=numbers, json_path="excess"), right=0
            )
        ],
        if_steps=[register],
        else_steps=[FailStep(name="refused", error_message="too many digits are read badly")],
    )
    return Pipeline(
        name="digits", parameters=[max_digits], steps=[load, train, evaluate, gate], sagemaker_session=session
    )


def main():
    session = PipelineSession(boto_session=boto3.Session(region_name="us-east-1"), default_bucket="bucket")
    seconds = []
    for _ in range(int(sys.argv[1])):
        begun = time.perf_counter()
        definition = build(session).definition()
        seconds.append(time.perf_counter() - begun)
    digest = hashlib.sha256(definition.encode()).hexdigest()
    print(json.dumps({"import": imported - started, "compile": seconds, "sha256": digest}))


if __name__ == "__main__":
    main()
