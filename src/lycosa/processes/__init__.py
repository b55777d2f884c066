"""Processes of a crawl: the supervisor, its workers, and what they report."""
