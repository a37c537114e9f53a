"""Automatic starts of a pipeline: patterns, clocks, what a trigger becomes, and a rehearsal of events."""
