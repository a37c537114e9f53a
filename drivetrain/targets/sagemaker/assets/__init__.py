"""What a definition needs in the bucket: code, wheels, and data from this machine."""
