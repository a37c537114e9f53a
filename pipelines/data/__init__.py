"""Example data: files, and programs that make a table, the same each time; `example:NAME` in a pipeline."""
