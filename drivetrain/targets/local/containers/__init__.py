"""A container without docker: a job as a supervised process tree that sees a folder of the run as /opt/ml."""
