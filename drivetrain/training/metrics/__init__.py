"""Metrics: one file each, found by its name; the contract is drivetrain.training.metric.

Files whose names begin with an underscore hold code that several metrics share.
"""
