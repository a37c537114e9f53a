"""What starts a pipeline by itself: patterns, clocks, what a trigger becomes, and a rehearsal of events.

Here is what EventBridge calls the kinds of events that start pipelines, their `detail-type`:
https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventBridge.html.
"""

from __future__ import annotations

EXECUTION = "SageMaker Model Building Pipeline Execution Status Change"
MODEL_PACKAGE = "SageMaker Model Package State Change"
ALARM = "CloudWatch Alarm State Change"
OBJECT_CREATED = "Object Created"
