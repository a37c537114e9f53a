"""Where checkpoints are kept, a file a kind of place."""
