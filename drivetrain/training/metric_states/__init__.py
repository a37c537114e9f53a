"""What metrics are made of: whole numbers that add up to the same on any number of ranks."""
