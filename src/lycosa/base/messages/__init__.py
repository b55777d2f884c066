"""The messages between coordinator, nodes, workers and callers, and their times."""
