"""The calls that write a pipeline into an account, and those that take it back."""
