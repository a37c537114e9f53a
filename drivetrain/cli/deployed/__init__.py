"""Commands about pipelines in an account."""
