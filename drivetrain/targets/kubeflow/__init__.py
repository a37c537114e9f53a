"""Kubeflow Pipelines v2: a pipeline as its IR YAML, runs of that by kfp's own local runner, and deployments.

target.py       what the command line asks (../target.py)
schedules.py    schedules as triggers of recurring runs
settings.py     the block `deployment.targets.kubeflow` of a pipeline's settings
"""
