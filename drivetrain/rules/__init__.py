"""What a pipeline must not be: one rule, one function, one test."""
