"""Two definitions compared by meaning and by name."""
