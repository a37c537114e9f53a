"""What people see of a pipeline and of a run: the DAG as a picture, and the page of a run."""
