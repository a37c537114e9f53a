"""What starts a pipeline by itself: patterns, clocks, what a trigger becomes, and a rehearsal of events."""
