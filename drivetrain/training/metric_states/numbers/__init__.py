"""Numbers that come out the same on any number of ranks: exact sums, hashes, enclosures."""
