"""What comes into the frontier, and parcels between partitions."""
