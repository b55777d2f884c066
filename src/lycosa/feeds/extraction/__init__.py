"""Extraction again: items from stored captures, without a request."""
