"""Brings the state of a stopped crawl into other shards: import, other numbers of shards,
rescue."""
