"""A crawl on many machines: the coordinator, and the services that it needs."""
