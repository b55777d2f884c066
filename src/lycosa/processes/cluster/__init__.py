"""A node of a cluster: its session and folder, its link to the coordinator, its workers' shards."""
