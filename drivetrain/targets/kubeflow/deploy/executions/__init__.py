"""What a deployed pipeline then does."""
