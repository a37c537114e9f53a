"""What EventBridge calls the kinds of events that start pipelines: their `detail-type`.

https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventBridge.html.
"""

EXECUTION = "SageMaker Model Building Pipeline Execution Status Change"
MODEL_PACKAGE = "SageMaker Model Package State Change"
ALARM = "CloudWatch Alarm State Change"
OBJECT_CREATED = "Object Created"
