"""Manifests of what a pipeline needs on a cluster with Kubeflow, as a folder that `kubectl apply -k` takes.

    manifests.py   pipeline -> the folder's files, by name
    needs.py       what a pipeline asks of the cluster, typed
    notes.py other tasks and notes for the user
    launcher.py    how the launcher of Pipelines finds the object store
    objects.py     a Kubernetes object, its labels, its YAML
    pods.py        containers and Deployments under the Pod Security Standard "restricted"
    access.py      service accounts, and the Role with what their pods call
    network.py     who may reach which pods, and whom they reach
    runtimes.py    ClusterTrainingRuntimes for trainings on several nodes
    services.py    TensorBoard, and the Deployment of the starter
    readiness/     whether the pipeline would run there: `--check` asks
    starter.py     the starter's program: it polls the model registry
    storage.py     the namespace, and the volume for checkpoints
    images/        Dockerfiles

All but the starter and readiness/ is pure: no cluster is asked, and the same pipeline gives the same bytes.
"""
