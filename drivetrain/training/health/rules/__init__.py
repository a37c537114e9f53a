"""The rules, one file each (drivetrain.training.health.rule)."""
