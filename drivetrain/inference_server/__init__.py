"""Serves a model by its own code. This folder is a package of its own, which start.py runs.

start.py     the command
server.py    HTTP: which page does what
hooks.py     the user's module
tensors.py   the V2 protocol: named arrays as JSON and bytes
bodies.py    the body of a request
metrics.py   counts and times, as Prometheus reads them

Standard library and numpy, and nothing of drivetrain: a model brings its own. So its modules import each other by
relative imports.
"""
