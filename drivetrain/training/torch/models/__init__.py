"""Parts of models, and weights in files."""
