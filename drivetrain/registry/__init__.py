"""Registered models: the contract of a registry, what a version says of itself, and its files."""
