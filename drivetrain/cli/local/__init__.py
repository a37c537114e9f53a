"""Commands that run things on this machine, and show what was run."""
