"""Formats of data: one file each, found by its name (reader.py has the contract)."""
