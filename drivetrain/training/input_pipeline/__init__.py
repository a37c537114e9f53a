"""Which samples come next, where they are read, and how they get to the loop."""
