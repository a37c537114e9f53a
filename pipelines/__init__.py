"""The engine: spec, targets, command line."""
