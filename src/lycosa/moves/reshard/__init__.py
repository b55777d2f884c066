"""Divides the state of a stopped crawl again: rows of partitions become rows of shards."""
