"""The audit: what a crawl folder promises, compared with what it holds."""
