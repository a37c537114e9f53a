"""From the spec to the IR of Kubeflow Pipelines v2, as plain dicts: kfp is not imported.

    compile.py      the whole pipeline: DAGs in DAGs, one component and one executor a step
    scopes.py how a value gets from its DAG into a DAG that needs it
    tasks.py        a step that runs a program: its document, its command, what it takes and gives
    words.py        values as a task's document spells them; conditions as CEL
    machines.py     what a step's pod asks of the cluster
    train_job.py    a training on several nodes: the TrainJob that its task creates, and its runtime
    retries.py      how often the platform tries a step again
    mounts.py       Secrets and claims that the settings give it by name
    notices.py      the exit task that posts how a run ended
    notes.py        what does not count there, and how large a run becomes in the cluster
    checks.py       what cannot be expressed, by step and field
    deployable.py   what a cluster needs, and a run on this machine does not

A task runs `drivetrain.steps.kubeflow`, by the start file that its code archive brings: its document says which
program, with which words. The same YAML runs in kfp's own local runner (../run).
"""
