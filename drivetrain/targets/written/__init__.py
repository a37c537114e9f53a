"""Python code for what definitions hold: how it is laid out, and how its variables are named."""
