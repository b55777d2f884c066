"""The stages of a crawl. They do not know each other: the worker runs them in turn."""
