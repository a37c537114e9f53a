"""What deploying is on every target."""
