"""Divides the state of a stopped crawl anew: rows of partitions become rows of shards."""
