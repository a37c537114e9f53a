"""Commands that start things on this machine, and serve them."""
