"""Commands about registered models."""
