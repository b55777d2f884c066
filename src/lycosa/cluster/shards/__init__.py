"""Reads the shards of a crawl on many machines, from any machine."""
