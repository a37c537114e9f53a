"""Serves a model by its own code, in a process of its own.

start.py     the command
server.py    HTTP: which page does what
hooks.py     the user's module
tensors.py   the V2 protocol: named arrays as JSON and bytes
bodies.py    the body of a request
metrics.py   counts and times, as Prometheus reads them

Standard library and numpy, and nothing else of drivetrain: a model brings its own modules.
"""
