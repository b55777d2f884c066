"""Renders a stored page in a browser that opens no connection."""
