"""The messages between coordinator, nodes, workers and callers, and the timeouts by which they
judge each other.
"""
