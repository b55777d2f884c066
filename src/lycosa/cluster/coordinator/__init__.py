"""The decisions for all workers of a crawl: which node runs which shard, permits for captures, and
the end.

This package is pure: nothing in it waits, does I/O or reads a clock.
"""
