"""From a pipeline to the definition that SageMaker Pipelines deploys."""
