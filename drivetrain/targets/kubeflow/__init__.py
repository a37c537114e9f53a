"""Kubeflow Pipelines v2: a pipeline as its IR YAML, runs of that by kfp's own local runner, and deployments.

target.py       what the command line asks (../target.py)
schedules.py    schedules as triggers of recurring runs
deploy/         what deploys it, and looks at what it does there (../deployer.py)
settings.py     the block `deployment.targets.kubeflow` of a pipeline's settings
"""
