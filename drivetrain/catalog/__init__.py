"""Tables of what exists: machines, strategies and their options, limits of the service. Here is what EventBridge calls
the kinds of events that start pipelines, their `detail-type`:
https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventBridge.html.
"""

from __future__ import annotations

EXECUTION_EVENT = "SageMaker Model Building Pipeline Execution Status Change"
STEP_EVENT = "SageMaker Model Building Pipeline Execution Step Status Change"
MODEL_PACKAGE_EVENT = "SageMaker Model Package State Change"
ALARM_EVENT = "CloudWatch Alarm State Change"
OBJECT_EVENT = "Object Created"
