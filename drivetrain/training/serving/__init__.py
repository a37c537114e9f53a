"""How a model answers requests: what travels in the model folder's code/ (code_folder.py writes it)."""
