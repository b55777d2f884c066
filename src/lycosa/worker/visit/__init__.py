"""The visit of a host, from the lease of a URL to its capture."""
