"""Runs and models as Python objects, for notebooks and scripts; `import drivetrain as dt` has the names.

    run = dt.run("retraining", epochs=5)          # or a file, a function, a Pipeline
    run.status, run.metrics["accuracy"], run.steps["train"].outputs["model"]
    dt.runs("retraining").to_frame()
    dt.Run("latest").compare("1ee5")
    dt.models("retraining")[0].approve("better on all classes")
    dt.Deployed("retraining", config="production.yaml").start().wait()

deployed.py     runs of a deployed pipeline, on SageMaker or Kubeflow
run.py          one run and its steps, started or read from the ledger
running.py      what starts a pipeline, goes on with a run, and shows its progress
runs.py         many runs
models.py       registered models, in any registry
comparison.py   what differs between runs
arguments.py    what the calls take; anything else is refused
frames.py       data frames of pandas or Polars, and tables
pictures.py     the DAG of a pipeline, for notebooks
"""
