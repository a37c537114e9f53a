"""The program of a task of Kubeflow Pipelines: `python -m drivetrain.steps.kubeflow EXECUTOR-INPUT`.

__main__.py     from the executor input to an exit code, and what an earlier attempt of the task left
task.py         what the task is given, and its document's words as text
program.py      the step's program, its log, the metrics in it, and reports to a runner on this machine
forks.py        one interpreter from which the tasks of a run on one machine are forked
notice.py       a program of its own: posts how a run ended

On several nodes:

nodes.py        the task: a TrainJob from its creation to its end
train_job.py    its name, labels and manifest
reasons.py      what its pods, conditions and events say
pod_log.py      rank 0's log
own_pod.py      the task's own pod
cluster_api.py  the Kubernetes API
node.py         what runs in each of its pods
objects.py      inputs and outputs, from S3 and back
"""
