"""Deploying: one plan, one way to apply it and one form of deployed runs for every target."""
