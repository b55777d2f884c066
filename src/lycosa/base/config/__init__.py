"""Settings: their declarations, checks, units and sources."""
