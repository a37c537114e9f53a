"""Kinds of registries, one file each, found by file name (registry.py has the contract)."""
