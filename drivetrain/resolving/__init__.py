"""The needs of a step's job, resolved once for every target: its framework and packages, and vendors' libraries."""
