"""The audit: the guarantees of a crawl folder, compared with its content."""
