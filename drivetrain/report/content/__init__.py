"""What reports tell: plain values, read from the ledger, definitions and the files of steps."""
