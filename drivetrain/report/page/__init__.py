"""The page of a run, section by section."""
