"""The IR of Kubeflow Pipelines v2, as anybody may have written it: read within bounds, and checked without kfp.

    fields.py         unknown fields and wrong types, by messages.json; the rest goes on to those below
    components.py     components, who uses them, and what they take and give
    tasks.py          the tasks of a DAG: what they take, in which order, how often
    sources.py        where a task's input comes from, and whether its type fits
    cel.py            the expressions of conditions
    placeholders.py   `{{$...}}` in commands, images and values
    executors.py      containers, importers, and what is asked of Kubernetes for them (the platform's part)
    problems.py       one problem, and how its place is written
    check.py          text -> the documents; what a DAG gives, and all of it: `problems(documents)`; as the command
                      line says it: `inspect(text, source)`

Messages and rules follow pipeline_spec.proto and kubernetes_executor_config.proto of kubeflow/pipelines; tests compare
the fields with kfp's protobufs, and hold that what kfp's own compiler writes is accepted.
"""
