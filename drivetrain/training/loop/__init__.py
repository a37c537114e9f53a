"""Building blocks of the training loop: its configuration, what it writes down, when it ends."""
