"""Settings: what there are, their checks and units, and where their values come from."""
