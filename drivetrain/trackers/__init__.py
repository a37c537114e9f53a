"""Experiment trackers that are told of runs on this machine: parameters, metrics as they come, artifacts, links.

tracker.py     what a tracker is told, and its settings
follow.py      the program that reads a run from the ledger and tells one tracker; one process a tracker
starting.py    starts these programs with a run, and waits for them at its end, for a bounded time
backends/      a tracker a file, found by its name
"""
