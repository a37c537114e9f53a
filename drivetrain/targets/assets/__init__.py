"""What a target must have of this machine before a pipeline can run there: code, wheels and data. No target owns it."""
