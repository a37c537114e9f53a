"""Recipes, one file each; the contract is in drivetrain.training.recipe."""
