"""What the training loop is made of: its configuration, what it writes down, when it ends."""
