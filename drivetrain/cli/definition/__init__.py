"""Commands about definitions: compile, check, show, diff, import, list, schema."""
