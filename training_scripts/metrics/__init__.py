"""Metrics: one file each, found by its name; the contract is drivetrain.training_scripts.metric."""
