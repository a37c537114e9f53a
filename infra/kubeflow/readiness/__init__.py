"""Checks that a pipeline would run: `drivetrain infra kubeflow PIPELINE --check`.

    checks.py    all checks in their order, and what they found
    place.py     what is asked (the Kubernetes API by kubectl), and a finding
    servers.py   the Pipelines API, the object store and the model registry, from here and as pods name them
    namespace.py what must be there in the pipeline's namespace
    platform.py  what an administrator sets once: the workflow controller, Kubeflow Trainer and its runtimes

A check is a function; nothing is written. What cannot be asked is said, never guessed.
"""
