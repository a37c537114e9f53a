"""Pipelines and runs for people: facts (content/), the picture of a pipeline (dag/), pages (page/) and texts."""
