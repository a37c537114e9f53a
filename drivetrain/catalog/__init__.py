"""Tables of what exists: machines, strategies and their options, limits of the service."""
