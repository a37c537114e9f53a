"""One execution: which step runs next, with which values, and how each step ends."""
