"""The processes of one machine of a cluster."""
