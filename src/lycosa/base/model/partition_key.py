"""A key of a table with the partition that owns it, as partitions ask each other for it."""

PartitionKey = tuple[int, bytes]
"""A partition and a key that it owns."""
