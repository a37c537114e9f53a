"""Building blocks of metrics: whole numbers that add up to the same on any number of ranks."""
