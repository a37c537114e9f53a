"""The words with which a pipeline is written, and how a written one is found and built."""
