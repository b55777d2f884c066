"""Servers of the Model Context Protocol: one that reads a crawl, one that operates it."""
