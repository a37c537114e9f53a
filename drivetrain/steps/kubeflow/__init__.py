"""What a task of Kubeflow Pipelines runs: `python -m drivetrain.steps.kubeflow EXECUTOR-INPUT`.

__main__.py   from the executor input to an exit code
task.py       what the task is given, and its document's words as text
program.py    the step's program, its log, and the metrics in it
notice.py     a program of its own: posts how a run ended
reports.py    tells whoever runs the task on this machine
"""
