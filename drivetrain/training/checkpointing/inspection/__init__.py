"""Checkpoints for people: lists, contents, verification, export. Standard library only, on any machine."""
