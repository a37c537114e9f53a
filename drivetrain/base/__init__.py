"""Errors, texts and files: what every room may use. Standard library only."""
