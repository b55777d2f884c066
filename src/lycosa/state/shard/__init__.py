"""A shard, which is everything that one worker owns: opened from its commits, its snapshots, and
views of it.

It is built on the ports of log, segments and snapshots.
"""
