"""A shard: what one worker owns, as the fold of its commits, above the ports of log, segments
and snapshots.
"""
