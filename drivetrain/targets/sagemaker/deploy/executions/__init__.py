"""Executions of a deployed pipeline: started, followed, reported."""
