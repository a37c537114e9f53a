"""The executions of a deployed pipeline."""
