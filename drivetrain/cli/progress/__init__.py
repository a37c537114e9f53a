"""The progress of a run, on a terminal or as plain lines."""
