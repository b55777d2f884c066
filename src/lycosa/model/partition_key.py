"""A key of a table together with the partition that owns it: what partitions ask each other for."""

PartitionKey = tuple[int, bytes]
"""A partition and a key that it owns."""
