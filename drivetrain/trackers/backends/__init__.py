"""Trackers, one file each: `Settings`, and `connect(settings, run, earlier) -> Tracker` (tracker.py)."""
