"""From a platform's contract to running processes, and from a failing one to its reason."""
