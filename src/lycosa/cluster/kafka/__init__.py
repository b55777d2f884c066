"""Kafka as the log of a shard's commits and as the transport of parcels; how its topics must be
set.

Needs the extra ``cluster``; one machine needs none of this.
"""
