"""How a worker opens its shard, and how it makes changes permanent."""
