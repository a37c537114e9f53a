"""Limits of SageMaker that a definition can break, with where they are documented.

Hard limits are the service's own: breaking one is an error when compiling. `DEFAULT_` limits are what a new account
starts with and can be raised on request, so they are worth a warning at most. What the service model says of single
fields is not repeated here: `shapes.check_arguments` reads it there; a test holds the constants below against it.

Sources:
    [pipeline]  https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreatePipeline.html
    [start]     https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StartPipelineExecution.html
    [parameter] https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Parameter.html
    [schema]    https://aws-sagemaker-mlops.github.io/sagemaker-model-building-pipeline-definition-JSON-schema/
    [training]  https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html
    [stopping]  https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
    [processing] https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateProcessingJob.html
    [foreach]   https://docs.aws.amazon.com/sagemaker/latest/dg/build-and-manage-steps-types.html
    [retry]     https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-retry-policy.html
    [selective] https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-selective-ex.html
    [callback]  https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SendPipelineExecutionStepSuccess.html
    [structure] https://docs.aws.amazon.com/sagemaker/latest/dg/build-and-manage-pipeline.html
    [tuning]    https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-limits.html
    [quotas]    https://docs.aws.amazon.com/sagemaker/latest/dg/feature-store-feature-processor-quotas.html, which lists
                the defaults of https://docs.aws.amazon.com/general/latest/gr/sagemaker.html
"""

from __future__ import annotations

# The definition as a whole [pipeline].
MAX_DEFINITION_CHARACTERS = 1_048_576  # a longer one is given as an object in S3
MAX_TAGS = 50
MAX_TAG_KEY_CHARACTERS = 128
MAX_TAG_VALUE_CHARACTERS = 256

# Steps [schema, pipeline].
MAX_STEP_NAME_CHARACTERS = 64
MAX_DISPLAY_NAME_CHARACTERS = 256
MAX_DESCRIPTION_CHARACTERS = 3_072

# Parameters [parameter].
MAX_PARAMETER_VALUE_CHARACTERS = 1_024
MAX_PARAMETERS_AT_START = 200  # [start]
MAX_CHOICES = 16  # EnumValues of one parameter; no page says so, users were refused more

# Job names, which Pipelines makes from pipeline and step, and what they carry [training, processing].
MAX_JOB_NAME_CHARACTERS = 63
MAX_HYPERPARAMETERS = 100
MAX_HYPERPARAMETER_CHARACTERS = 2_500
MAX_CHANNELS = 20
MAX_ARGUMENTS = 100
MAX_ARGUMENT_CHARACTERS = 256
MAX_PROCESSING_INPUTS = 10
MAX_PROCESSING_OUTPUTS = 10
MAX_WARM_POOL_SECONDS = 21_600
MAX_JOB_RETRIES = 30
PENDING_SECONDS = (1_800, 2_419_200)  # how long a job may wait for capacity [stopping]
MAX_INSTANCE_GROUPS = 5
MAX_INSTANCE_PREFERENCES = 5
MAX_SUBNETS = 16
MAX_SECURITY_GROUPS = 5
MAX_RUN_SECONDS = {"Training": 2_419_200, "Processing": 777_600}  # 28 [stopping] and 9 days

# Step types.
MAX_FOREACH_ITEMS = 100  # literal ones [foreach]
MAX_FOREACH_CONCURRENCY = 50
MAX_ITEM_CHARACTERS = 12_800  # IterationContext.Item of the service model
MAX_RETRY_ATTEMPTS = 20  # [retry]
MAX_RETRY_MINUTES = 14_400
MAX_SELECTED_STEPS = 50  # [selective]
MAX_CALLBACK_OUTPUTS = 50  # [callback]
DEFAULT_PARALLEL_STEPS = 50  # unless MaxParallelExecutionSteps says otherwise [structure]

# Tuning [tuning].
MAX_TUNED_HYPERPARAMETERS = 30
MAX_TUNED_VALUES = 30  # of one categorical hyperparameter

# What a new account starts with, for a Region [quotas, tuning].
DEFAULT_INSTANCES_PER_TRAINING_JOB = 20
DEFAULT_MAX_RUN_SECONDS = 432_000
DEFAULT_WARM_POOL_SECONDS = 3_600
DEFAULT_TUNED_JOBS = 750
