"""``lycosa serve`` and its callers: the coordinator of a crawl on many machines, over TCP."""
