"""The local runner: it executes SageMaker's definition on this machine."""
