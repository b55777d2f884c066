"""Many workers as one crawl: which node runs which shard, permits for captures, and the end.

This package is pure: nothing in it waits or does I/O.
"""
