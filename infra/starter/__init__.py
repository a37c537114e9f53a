"""The Lambda between the queue of events and StartPipelineExecution."""
