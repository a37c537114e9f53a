"""A store that commits folders: manifests, locks, retention. Standard library only."""
