"""Folders that stand for S3: objects, what jobs read from them, and what they leave."""
