"""How far a metric may be off: the bootstrap, and intervals."""
