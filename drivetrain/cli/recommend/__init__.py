"""`drivetrain recommend`."""
