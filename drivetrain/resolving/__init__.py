"""What a step's job needs, found once for every target: its framework and packages, and vendors' libraries."""
