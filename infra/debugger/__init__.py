"""An environment with smdebug, the library of SageMaker Debugger's hook."""
