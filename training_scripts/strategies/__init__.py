"""Strategies, one file each; the contract is in drivetrain.training.strategy."""
