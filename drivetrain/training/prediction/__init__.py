"""Predictions over a data set, shard by shard: what is there already, what is missing, what is written."""
