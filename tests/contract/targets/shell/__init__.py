"""A target of a folder: a pipeline as shell commands. It shows what a third target takes."""
