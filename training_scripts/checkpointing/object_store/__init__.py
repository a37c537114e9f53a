"""S3's own protocol, as much of it as checkpoints need, with each failure retried so often and no more."""
