"""A shard: everything that one worker owns, built from its commits.

It stands above the ports of log, segments and snapshots.
"""
