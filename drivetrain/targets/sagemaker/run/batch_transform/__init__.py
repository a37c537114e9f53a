"""Batch transform: input split into requests, a server that answers them, answers joined to what they answer."""
