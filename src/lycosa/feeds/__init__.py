"""Copies of what a crawl commits, kept up to date: URL state in databases, rows as feeds."""
