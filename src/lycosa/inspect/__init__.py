"""Inspection of a crawl, running or not, that changes nothing."""
